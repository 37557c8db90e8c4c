// Reads the data of the page and draws it.
import { render } from "preact";
import { App } from "./app.jsx";
import "./style.css";

const data = JSON.parse(document.getElementById("data").textContent);
render(<App data={data} />, document.getElementById("page"));
document.documentElement.dataset.ready = "true";
