// Draws a body from its seed, as icecore and torch do. The reference, with its source, is src/icecore/page/regenerate.py.

const PRIMES = [...Array(312).keys()].filter((n) => n > 1 && !Array.from({ length: n - 2 }, (_, i) => i + 2).some((d) => n % d === 0));
const fraction = (value) => Math.floor((value - Math.floor(value)) * 2 ** 32) >>> 0;
const STARTS = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
const ROUNDS = PRIMES.slice(0, 64).map((prime) => fraction(Math.cbrt(prime)));

// Returns the eight words of the SHA-256 of a text.
export function sha256(text) {
  const bytes = new TextEncoder().encode(text);
  const blocks = new DataView(new ArrayBuffer(64 * Math.ceil((bytes.length + 9) / 64)));
  bytes.forEach((byte, place) => blocks.setUint8(place, byte));
  blocks.setUint8(bytes.length, 0x80);
  blocks.setUint32(blocks.byteLength - 4, 8 * bytes.length);
  const state = [...STARTS];
  const turned = (word, by) => (word >>> by) | (word << (32 - by));
  for (let begin = 0; begin < blocks.byteLength; begin += 64) {
    const words = Array.from({ length: 16 }, (_, index) => blocks.getUint32(begin + 4 * index));
    for (let index = 16; index < 64; index++) {
      const [a, b] = [words[index - 15], words[index - 2]];
      const [low, high] = [turned(a, 7) ^ turned(a, 18) ^ (a >>> 3), turned(b, 17) ^ turned(b, 19) ^ (b >>> 10)];
      words.push((words[index - 16] + low + words[index - 7] + high) | 0);
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let index = 0; index < 64; index++) {
      const first = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[index] + words[index]) | 0;
      const second = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, index) => (state[index] = (state[index] + word) | 0));
  }
  return state.map((word) => word >>> 0);
}

// Returns the low 32 bits of the seed of a stream: `icecore.seeding.derive_seed`.
export function deriveSeed(seed, ...names) {
  const [high, low] = sha256(["icecore", seed, ...names].join("/"));
  return ((high << 31) | (low >>> 1)) >>> 0;
}

// Returns a function that yields the 32-bit numbers of a Mersenne Twister.
export function twister(seed) {
  const state = new Uint32Array(624);
  state[0] = seed;
  for (let index = 1; index < 624; index++) {
    state[index] = Math.imul(1812433253, state[index - 1] ^ (state[index - 1] >>> 30)) + index;
  }
  let place = 624;
  const refill = () => {
    for (let index = 0; index < 624; index++) {
      const mixed = (state[index] & 0x80000000) | (state[(index + 1) % 624] & 0x7fffffff);
      state[index] = state[(index + 397) % 624] ^ (mixed >>> 1) ^ (mixed & 1 ? 0x9908b0df : 0);
    }
    place = 0;
  };
  return () => {
    if (place === 624) refill();
    let value = state[place++];
    value ^= value >>> 11;
    value ^= (value << 7) & 0x9d2c5680;
    value ^= (value << 15) & 0xefc60000;
    return (value ^ (value >>> 18)) >>> 0;
  };
}

const BLOCK = 16;

// Returns `count` normal values of standard deviation `std`.
export function normalValues(count, seed, std) {
  const next = twister(seed);
  const uniform = () => (next() & 0xffffff) / 2 ** 24;
  const found = Float32Array.from({ length: count }, uniform);
  const fill = (begin) => {
    for (let place = begin; place < begin + BLOCK / 2; place++) {
      const radius = std * Math.sqrt(-2 * Math.log(1 - found[place]));
      const angle = 2 * Math.PI * found[place + BLOCK / 2];
      [found[place], found[place + BLOCK / 2]] = [radius * Math.cos(angle), radius * Math.sin(angle)];
    }
  };
  for (let begin = 0; begin + BLOCK <= count; begin += BLOCK) fill(begin);
  if (count % BLOCK) {
    for (let place = count - BLOCK; place < count; place++) found[place] = uniform();
    fill(count - BLOCK);
  }
  return found;
}
