// The forward pass of icecore's Transformer (src/icecore/models/transformer.py): pre-norm, gelu_new, learned positions.

const EPSILON = 1e-5;

function normed(x, weight, bias, width) {
  const out = new Float64Array(x.length);
  for (let begin = 0; begin < x.length; begin += width) {
    let [mean, variance] = [0, 0];
    for (let channel = 0; channel < width; channel++) mean += x[begin + channel] / width;
    for (let channel = 0; channel < width; channel++) variance += (x[begin + channel] - mean) ** 2 / width;
    const scale = 1 / Math.sqrt(variance + EPSILON);
    for (let channel = 0; channel < width; channel++) {
      out[begin + channel] = (x[begin + channel] - mean) * scale * weight[channel] + bias[channel];
    }
  }
  return out;
}

// Multiplies rows by the transpose of a matrix (outputs, inputs) and adds a bias, if there is one.
function linear(x, matrix, bias, inputs) {
  const [rows, outputs] = [x.length / inputs, matrix.length / inputs];
  const out = new Float64Array(rows * outputs);
  for (let row = 0; row < rows; row++) {
    for (let output = 0; output < outputs; output++) {
      let sum = bias ? bias[output] : 0;
      for (let input = 0; input < inputs; input++) sum += x[row * inputs + input] * matrix[output * inputs + input];
      out[row * outputs + output] = sum;
    }
  }
  return out;
}

const gelu = (x) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

function softmaxed(scores) {
  const most = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - most));
  const sum = powers.reduce((total, each) => total + each, 0);
  return powers.map((each) => each / sum);
}

// Returns what each query reads, and the maps by head: rows are queries, columns keys.
function attend(parameters, block, x, { width, heads, attention }, length) {
  const part = (name) => linear(x, parameters[`${block}.${name}.weight`], parameters[`${block}.${name}.bias`], width);
  const [query, key, value] = [attention === "softmax" ? part("q") : null, attention === "softmax" ? part("k") : null, part("v")];
  const channels = width / heads;
  const mixed = new Float64Array(length * width);
  const maps = [];
  for (let head = 0; head < heads; head++) {
    const map = [];
    for (let from = 0; from < length; from++) {
      let shares = Array(from + 1).fill(1); // prefix-sum: a lower triangle of ones
      if (attention === "softmax") {
        shares = softmaxed(
          shares.map((_, to) => {
            let score = 0;
            for (let channel = head * channels; channel < (head + 1) * channels; channel++) score += query[from * width + channel] * key[to * width + channel];
            return score / Math.sqrt(channels);
          }),
        );
      }
      shares.forEach((share, to) => {
        for (let channel = head * channels; channel < (head + 1) * channels; channel++) mixed[from * width + channel] += share * value[to * width + channel];
      });
      map.push([...shares, ...Array(length - from - 1).fill(0)]);
    }
    maps.push(map);
  }
  return [linear(mixed, parameters[`${block}.out.weight`], parameters[`${block}.out.bias`], width), maps];
}

// Returns the logits after the last token, and the attention maps by layer and head.
export function forward(parameters, model, tokens) {
  const { width, layers } = model;
  const length = tokens.length;
  let stream = new Float64Array(length * width);
  tokens.forEach((token, place) => {
    for (let channel = 0; channel < width; channel++) {
      stream[place * width + channel] = parameters.token[token * width + channel] + parameters.position[place * width + channel];
    }
  });
  const maps = [];
  const add = (more) => (stream = stream.map((each, place) => each + more[place]));
  for (let layer = 0; layer < layers; layer++) {
    const block = `block${layer}`;
    const norm = (name) => normed(stream, parameters[`${block}.${name}.weight`], parameters[`${block}.${name}.bias`], width);
    const [attended, own] = attend(parameters, block, norm("attention_norm"), model, length);
    maps.push(own);
    add(attended);
    const inner = linear(norm("mlp_norm"), parameters[`${block}.mlp_in.weight`], parameters[`${block}.mlp_in.bias`], width).map(gelu);
    add(linear(inner, parameters[`${block}.mlp_out.weight`], parameters[`${block}.mlp_out.bias`], 4 * width));
  }
  const last = normed(stream.subarray((length - 1) * width), parameters["final_norm.weight"], parameters["final_norm.bias"], width);
  return { logits: linear(last, parameters.unembed, null, width), maps };
}

export const probabilities = (logits) => softmaxed([...logits]);
