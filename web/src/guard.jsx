// Keeps a part of the page that cannot be drawn from taking the rest with it.
import { Component } from "preact";

export class Guard extends Component {
  static getDerivedStateFromError(error) {
    return { error };
  }

  render({ children, name }, { error }) {
    if (!error) return children;
    return <p class="problem" role="alert">{name} cannot be drawn: {String(error.message ?? error)}. Make the page again from undamaged files.</p>;
  }
}
