// Weights of a playground: snapshots of what trained, around a body drawn from a seed or stored.
import { deriveSeed, normalValues } from "./seeds.js";

// Returns the numbers of 16-bit floats in base64.
export function fromHalf(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const halves = new Uint16Array(bytes.buffer);
  const found = new Float32Array(halves.length);
  halves.forEach((half, place) => {
    const [sign, exponent, fraction] = [half >> 15 ? -1 : 1, (half >> 10) & 31, half & 1023];
    found[place] = sign * (exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24);
  });
  return found;
}

const sizeOf = ({ shape }, rows = shape[0]) => shape.slice(1).reduce((product, each) => product * each, rows);

// Whether something that did not train depends on the seed.
export const hasBody = ({ parameters }) => parameters.some(({ from }) => from === "body" || from.normal !== undefined);

export class Weights {
  constructor(data) {
    this.data = data;
    this.parameters = new Map(data.parameters.map((parameter) => [parameter.name, parameter]));
    this.bodies = new Map();
    this.sets = data.sets.map((set) => ({ ...set, numbers: null }));
  }

  get hasBody() {
    return hasBody(this.data);
  }

  // Whether a body of any seed can be drawn.
  get isDrawn() {
    return this.data.parameters.every((parameter) => parameter.from !== "body");
  }

  // Returns the frozen parameters of a seed, by name.
  body(seed) {
    if (!this.bodies.has(seed)) {
      if (this.bodies.size > 8) this.bodies.clear();
      this.bodies.set(seed, this.made(seed));
    }
    return this.bodies.get(seed);
  }

  made(seed) {
    const found = {};
    const stored = this.data.bodies[seed] === undefined ? null : fromHalf(this.data.bodies[seed]);
    let place = 0;
    for (const parameter of this.data.parameters) {
      const size = sizeOf(parameter);
      if (parameter.from === "body") {
        if (!stored) throw new Error(`the body of seed ${seed} is not stored`);
        found[parameter.name] = stored.subarray(place, (place += size));
      } else if (parameter.from.normal !== undefined) {
        found[parameter.name] = normalValues(size, deriveSeed(seed, "init", parameter.name), parameter.from.normal);
      } else if (parameter.from.constant !== undefined) {
        found[parameter.name] = new Float32Array(size).fill(parameter.from.constant);
      }
    }
    return found;
  }

  // Returns the trained parameters of a set at a snapshot, by name.
  trained(setIndex, snapshot) {
    const set = this.sets[setIndex];
    set.numbers ??= fromHalf(set.weights);
    const sizes = set.trained.map((name) => sizeOf(this.parameters.get(name), this.parameters.get(name).rows));
    const each = sizes.reduce((sum, size) => sum + size, 0);
    let place = each * snapshot;
    return Object.fromEntries(set.trained.map((name, index) => [name, set.numbers.subarray(place, (place += sizes[index]))]));
  }

  all(setIndex, snapshot, bodySeed) {
    return { ...this.body(bodySeed), ...this.trained(setIndex, snapshot) };
  }
}
