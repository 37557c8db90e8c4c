// Principal components of embeddings, by orthogonal iteration.
import { twister } from "./seeds.js";

const [COUNT, ROUNDS] = [4, 120];

// Returns the mean and the first components of the rows of a matrix (rows, width).
export function principal(matrix, width) {
  const rows = matrix.length / width;
  const mean = new Float64Array(width);
  matrix.forEach((value, place) => (mean[place % width] += value / rows));
  const next = twister(1);
  let basis = Array.from({ length: COUNT }, () => Float64Array.from({ length: width }, () => next() / 2 ** 32 - 0.5));
  for (let round = 0; round < ROUNDS; round++) basis = orthonormal(basis.map((vector) => back(matrix, mean, width, vector)));
  return { mean, basis };
}

// Multiplies a vector by the covariance of the rows, up to a factor.
function back(matrix, mean, width, vector) {
  const found = new Float64Array(width);
  for (let begin = 0; begin < matrix.length; begin += width) {
    let along = 0;
    for (let channel = 0; channel < width; channel++) along += (matrix[begin + channel] - mean[channel]) * vector[channel];
    for (let channel = 0; channel < width; channel++) found[channel] += along * (matrix[begin + channel] - mean[channel]);
  }
  return found;
}

function orthonormal(vectors) {
  const found = [];
  for (const vector of vectors) {
    for (const other of found) {
      const along = vector.reduce((sum, each, place) => sum + each * other[place], 0);
      vector.forEach((_, place) => (vector[place] -= along * other[place]));
    }
    const length = Math.hypot(...vector) || 1;
    found.push(vector.map((each) => each / length));
  }
  return found;
}

// Returns the coordinates of each row on two components.
export function places(matrix, width, { mean, basis }, [first, second]) {
  return Array.from({ length: matrix.length / width }, (_, row) =>
    [first, second].map((index) => {
      let along = 0;
      for (let channel = 0; channel < width; channel++) along += (matrix[row * width + channel] - mean[channel]) * basis[index][channel];
      return along;
    }),
  );
}
