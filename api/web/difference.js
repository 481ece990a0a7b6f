// Two texts side by side: what differs by words, what is not seen, and letters that only look like others.
import { html, useEffect } from "./vendor/preact.js";
import { marked, useCut } from "./parts.js";

const MOST_MARKS = 400; // reviewers are to see more of them than others
const MOST_STEPS = 4e6; // longer texts are compared from both ends only

/**
 * The words of two texts, those that both have in order marked as such.
 * @param {string} before @param {string} after
 * @returns {{before: [string, boolean][], after: [string, boolean][]}} Pieces, each with whether the other text lacks it.
 */
export function compare(before, after) {
  const [one, other] = [wordsOf(before), wordsOf(after)];
  let start = 0;
  while (start < one.length && start < other.length && one[start] === other[start]) start++;
  let end = 0;
  while (end < one.length - start && end < other.length - start && one[one.length - 1 - end] === other[other.length - 1 - end]) end++;
  const common = longestCommon(one.slice(start, one.length - end), other.slice(start, other.length - end));
  const isKept = (/** @type {number} */ at, /** @type {string[]} */ words, /** @type {Set<number>} */ inner) => at < start || at >= words.length - end || inner.has(at - start);
  return {
    before: joined(one, (at) => !isKept(at, one, common.one)),
    after: joined(other, (at) => !isKept(at, other, common.other)),
  };
}

/** Words, runs of white space, and each other character. @param {string} text @returns {string[]} */
function wordsOf(text) {
  return text.match(/[\p{L}\p{M}\p{N}_]+|\s+|[^]/gu) || [];
}

/** Places in each list of a longest common subsequence. @param {string[]} one @param {string[]} other */
function longestCommon(one, other) {
  const kept = { one: /** @type {Set<number>} */ (new Set()), other: /** @type {Set<number>} */ (new Set()) };
  if (one.length * other.length > MOST_STEPS) return kept;
  const width = other.length + 1;
  const lengths = new Uint16Array((one.length + 1) * width);
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      lengths[i * width + j] = one[i] === other[j] ? lengths[(i + 1) * width + j + 1] + 1 : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  for (let i = 0, j = 0; i < one.length && j < other.length; ) {
    if (one[i] === other[j]) {
      kept.one.add(i++);
      kept.other.add(j++);
    } else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i++;
    else j++;
  }
  return kept;
}

/** @param {string[]} words @param {(at: number) => boolean} differs @returns {[string, boolean][]} */
function joined(words, differs) {
  /** @type {[string, boolean][]} */
  const pieces = [];
  words.forEach((word, at) => {
    // What stands between two words that differ is read with them.
    const isOther = differs(at) || (/^\s+$/.test(word) && at > 0 && at < words.length - 1 && differs(at - 1) && differs(at + 1));
    const last = pieces[pieces.length - 1];
    if (last && last[1] === isOther) last[0] += word;
    else pieces.push([word, isOther]);
  });
  return pieces;
}

const SCRIPTS = ["Cyrillic", "Greek", "Armenian", "Cherokee", "Coptic", "Lisu"];
const OF_SCRIPT = SCRIPTS.map((name) => /** @type {[string, RegExp]} */ ([name, new RegExp(`\\p{Script=${name}}`, "u")]));

/** What a letter only looks like a Latin one by, in a word with Latin letters; empty: nothing. @param {string} letter */
function scriptOf(letter) {
  const found = OF_SCRIPT.find(([, letters]) => letters.test(letter));
  if (found) return found[0];
  return letter > "\u02ff" && /^[A-Za-z0-9]+$/.test(letter.normalize("NFKC")) ? `${letter.normalize("NFKC")} in disguise` : "";
}

/** Whether most of its letters are Latin ones: words of other scripts in it may only look like words. @param {string} text */
function isLatin(text) {
  return 2 * (text.match(/\p{Script=Latin}/gu) || []).length > (text.match(/\p{L}/gu) || []).length;
}

/**
 * A stranger's text: unseen characters by number, letters of other scripts amid Latin ones by name.
 * @param {string} text @param {{marks: number}} [left] As `marked` takes it. @param {boolean} [latin] Of the whole text.
 */
export function revealed(text, left = { marks: MOST_MARKS }, latin = isLatin(text)) {
  return marked(text, left).flatMap((piece) => (typeof piece === "string" ? revealedWords(piece, left, latin) : [piece]));
}

/** The same of a text that may be long. @param {{text: string, max?: number, onRest?: (chars: number) => void}} props `onRest`: how many are not shown. */
export function Revealed({ text, max = 4000, onRest }) {
  const [shown, more] = useCut(text, max);
  const rest = text.length - shown.length;
  useEffect(() => onRest?.(rest), [rest]);
  return html`<p class="words" dir="auto">${revealed(shown)}${more}</p>`;
}

/** @param {string} text @param {{marks: number}} left @param {boolean} latin */
function revealedWords(text, left, latin) {
  const pieces = [];
  for (const word of text.match(/[\p{L}\p{M}\p{N}\p{So}]+|[^\p{L}\p{M}\p{N}\p{So}]+/gu) || []) {
    const isMixed = /\p{Script=Latin}/u.test(word);
    const of = latin && !isMixed && /[^\u0000-\u024f]/.test(word) ? scriptOf(word[0]) : "";
    if (of && left.marks-- > 0) {
      pieces.push(html`<mark class="script" title=${`a word in ${of} letters`}>${word}<small> ${of} </small></mark>`);
      continue;
    }
    for (const letter of word) {
      const script = /[^\u0000-\u024f]/.test(letter) ? scriptOf(letter) : "";
      const isOdd = script && (isMixed || script.endsWith("disguise"));
      const said = isOdd && left.marks <= 0 ? `${letter}[${script}]` : letter;
      if (isOdd && left.marks-- > 0) pieces.push(html`<mark class="script" title=${`${script}, U+${code(letter)}`}>${letter}<small> ${script} </small></mark>`);
      else if (typeof pieces[pieces.length - 1] === "string") pieces[pieces.length - 1] += said;
      else pieces.push(said);
    }
  }
  return pieces;
}

/** @param {string} letter */
function code(letter) {
  return /** @type {number} */ (letter.codePointAt(0)).toString(16).toUpperCase().padStart(4, "0");
}

/** @param {unknown} value A field as the log has it. */
export function textOf(value) {
  return value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/**
 * The fields before and after, side by side.
 * @param {{before: Record<string, unknown>, after: Record<string, unknown>}} props
 */
export function Difference({ before, after }) {
  return Object.keys({ ...before, ...after }).map((field) => {
    const pieces = compare(textOf(before[field]), textOf(after[field]));
    return html`<div class="difference" role="group" key=${field} aria-label=${field}>
      <p class="field">${field.replace("_", " ")}</p>
      <${Side} name="before" pieces=${pieces.before} as="del" /><${Side} name="after" pieces=${pieces.after} as="ins" />
    </div>`;
  });
}

/** @param {{name: string, pieces: [string, boolean][], as: string}} props */
function Side({ name, pieces, as }) {
  const left = { marks: MOST_MARKS };
  const latin = isLatin(pieces.map(([text]) => text).join(""));
  const shown = pieces.map(([text, differs]) => (differs ? html`<${as}>${revealed(text, left, latin)}<//>` : revealed(text, left, latin)));
  return html`<div><p class="quiet">${name}</p><p class="words" dir="auto">${pieces.length ? shown : html`<span class="quiet">nothing</span>`}</p></div>`;
}
