// A command, which breaks between its words only: a browser would also break after the hyphens of a flag.
export function Command({ text }) {
  return <code>{text.split(" ").map((word, index) => <>{index > 0 && " "}<span class="word">{word}</span></>)}</code>;
}
