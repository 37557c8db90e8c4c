// Prompts in a task's notation, from the words of its tokens.

// Returns {tokens} or {problem}. A last word may be written without the mark that ends a prompt, such as "b" for "b?".
export function readPrompt(task, text) {
  const byWord = new Map(task.words.map((word, token) => [word.trim(), token]));
  let words = text.trim().split(/\s+/).filter(Boolean);
  if (words.length === 0) return { problem: `type a prompt, such as ${example(task)}` };
  if (words.some((word) => !byWord.has(word)) && [...byWord.keys()].every((word) => word.length <= 1)) words = [...words.join("")];
  const last = words.length - 1;
  if (byWord.has(`${words[last]}?`) && !task.ends.includes(byWord.get(words[last]))) words[last] = `${words[last]}?`;
  const unknown = words.find((word) => !byWord.has(word));
  if (unknown !== undefined) return { problem: `there is no token "${unknown}": write a prompt such as ${example(task)}` };
  const tokens = words.map((word) => byWord.get(word));
  if (task.ends.length === 1 && tokens.at(-1) !== task.ends[0]) tokens.push(task.ends[0]);
  if (!task.ends.includes(tokens.at(-1))) return { problem: `a prompt ends with a question: write one such as ${example(task)}` };
  if (tokens.length > task.length) return { problem: `at most ${task.length} tokens, these are ${tokens.length}` };
  return { tokens };
}

export const inWords = (task, tokens) => tokens.map((token) => task.words[token]).join(" ");
const example = (task) => `"${inWords(task, task.items[0].tokens)}"`;
