// The trained network, forward only: dense layers with Tanh, a hard signum, one linear read-out.
const dense = (layer, x) => layer.weight.map((row, i) => row.reduce((sum, w, j) => sum + w * x[j], layer.bias[i]));
const signum = (z, eps) => (z > eps ? 1 : z < -eps ? -1 : 0);

// code: what the hard layer says; logits[element * length + place]; order[place]: the element that belongs there
function sortWith(net, numbers) {
  const inside = net.layers.reduce((x, layer) => dense(layer, x).map(Math.tanh), numbers.map((x) => (x - net.shift) * net.scale));
  const code = inside.map((z) => signum(z, net.eps));
  const logits = dense(net.read_out, code);
  const places = [...numbers.keys()];
  const best = (place) => places.reduce((a, b) => (logits[b * net.length + place] > logits[a * net.length + place] ? b : a));
  return { code, logits, order: places.map(best) };
}
