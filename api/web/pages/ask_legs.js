// The parts of a search, as names, colours and shares of a score.

/** @typedef {{entity_id: string, kind: string, leg: string, rank: number, score: number, weight: number, contribution: number}} Vote */

/** Leg → its name in plain words, and its colour. @type {Record<string, [string, number]>} */
export const LEGS = {
  capability_vector: ["meaning of a tool", 0],
  tool_vector: ["meaning of a tool", 0],
  agent_vector: ["meaning of the agent", 1],
  capability_text: ["words of a tool", 2],
  agent_text: ["words of the agent", 3],
  name: ["named in the request", 4],
  siblings: ["its other tools", 5],
  call: ["what a call of it needs", 6],
  used: ["called before", 7],
  together: ["used with another", 7],
  follows: ["often called next", 7],
  failed: ["another one failed", 7],
};

/** @param {string} leg */
export const legName = (leg) => LEGS[leg]?.[0] || leg;

/** @param {string} leg */
export const legColour = (leg) => LEGS[leg]?.[1] ?? 7;

/** A score as people read it. @param {number} score */
export function digits(score) {
  return score.toFixed(Math.abs(score) < 0.1 ? 3 : 2);
}

/** The votes summed by leg; what speaks against one is in the table only. @param {Vote[]} votes */
export function partsOf(votes) {
  /** @type {Map<string, {name: string, leg: string, value: number, kind: number}>} */
  const parts = new Map();
  for (const { leg, contribution } of votes) {
    const part = parts.get(legName(leg)) || { name: legName(leg), leg, value: 0, kind: legColour(leg) };
    parts.set(part.name, { ...part, value: part.value + contribution });
  }
  return [...parts.values()].filter((part) => part.value > 0).sort((one, other) => one.kind - other.kind);
}
