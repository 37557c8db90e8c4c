// Reads the data of the page and draws it.
import { render } from "preact";
import { App } from "./app.jsx";
import { logitsOf } from "./playground/playground.jsx";
import "./style.css";
import { goTo } from "./words.js";

const data = JSON.parse(document.getElementById("data").textContent);
render(<App data={data} />, document.getElementById("page"));
window.icecore = { data, logits: (options) => logitsOf(data.playgrounds[options.playground ?? 0], options) };
// Figures have their heights after two frames. Before, the browser would scroll to where a part no longer is.
requestAnimationFrame(() => requestAnimationFrame(() => goTo(location.hash)));
document.documentElement.dataset.ready = "true";
