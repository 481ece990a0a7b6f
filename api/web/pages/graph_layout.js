// Where the nodes of a live view stand: forces, as Fruchterman and Reingold have them ("Graph Drawing by Force-directed
// Placement", 1991). At most a few hundred nodes, so every pair is looked at. The same graph gives the same places.

/** @typedef {{x: number, y: number}} Spot */

const APART = 74, FAR = 4 * APART, PAIRS = 9_000_000;

/**
 * Nodes that stood before begin where they stood, new ones beside a neighbour.
 * @param {{id: string, centre?: boolean}[]} nodes @param {{start: string, end: string}[]} edges
 * @param {Map<string, Spot>} before
 * @returns {Map<string, Spot>}
 */
export function placeNodes(nodes, edges, before) {
  const numbers = new Map(nodes.map((node, number) => [node.id, number]));
  const pairs = edges.flatMap((edge) => {
    const one = numbers.get(edge.start), other = numbers.get(edge.end);
    return one === undefined || other === undefined || one === other ? [] : [[one, other]];
  });
  const spots = firstSpots(nodes, pairs, before);
  const rounds = Math.min(300, Math.ceil(PAIRS / Math.max(1, nodes.length ** 2)));
  for (let round = 0; round < rounds; round++) move(spots, pairs, APART * 0.9 * (1 - round / rounds) + 0.5);
  return new Map(nodes.map((node, number) => [node.id, spots[number]]));
}

/** @param {{id: string}[]} nodes @param {number[][]} pairs @param {Map<string, Spot>} before @returns {Spot[]} */
function firstSpots(nodes, pairs, before) {
  const beside = new Map();
  for (const [one, other] of pairs) {
    beside.set(one, [...(beside.get(one) || []), other]);
    beside.set(other, [...(beside.get(other) || []), one]);
  }
  const radius = APART * Math.sqrt(nodes.length) * 0.6;
  return nodes.map((node, number) => {
    const stood = before.get(node.id);
    if (stood) return { ...stood };
    const angle = number * 2.399963; // the golden angle: no two in one place
    const known = (beside.get(number) || []).map((/** @type {number} */ each) => before.get(nodes[each].id)).find(Boolean);
    const from = known || { x: 0, y: 0 }, away = known ? APART : radius * Math.sqrt((number + 0.5) / nodes.length);
    return { x: from.x + away * Math.cos(angle), y: from.y + away * Math.sin(angle) };
  });
}

/** One round. @param {Spot[]} spots @param {number[][]} pairs @param {number} most How far a node may go. */
function move(spots, pairs, most) {
  const pushes = spots.map(({ x, y }) => ({ x: -x * 0.05, y: -y * 0.08 })); // together, and rather wide than high
  for (let one = 0; one < spots.length; one++) {
    for (let other = one + 1; other < spots.length; other++) {
      const x = spots[one].x - spots[other].x || 0.01 * (one - other), y = spots[one].y - spots[other].y || 0.01;
      const away = Math.max(4, x * x + y * y), force = (APART * APART) / away;
      if (away < FAR * FAR) push(pushes, one, other, x * force, y * force);
    }
  }
  for (const [one, other] of pairs) {
    const x = spots[one].x - spots[other].x, y = spots[one].y - spots[other].y, pull = -Math.hypot(x, y) / APART;
    push(pushes, one, other, x * pull, y * pull);
  }
  spots.forEach((spot, number) => {
    const by = pushes[number], length = Math.hypot(by.x, by.y) || 1, share = Math.min(most, length) / length;
    spot.x += by.x * share;
    spot.y += by.y * share;
  });
}

/** @param {Spot[]} pushes @param {number} one @param {number} other @param {number} x @param {number} y */
function push(pushes, one, other, x, y) {
  pushes[one].x += x;
  pushes[one].y += y;
  pushes[other].x -= x;
  pushes[other].y -= y;
}
