// A run's text token by token: fate by colour, sign and underline, what the gate looked at beneath.

const LEAST_SHOWN = 0.005; // of a figure, which else would read 0.00
const FULL_SCALE = 3; // nats of a full bar where no threshold gives the scale
const END = /^(<\|(im_end|endoftext|eot_id|end_of_text|end|eos)\|>|<\/s>|<eos>)$/;

// What cannot be seen is made visible; half a character shows as a dot.
function shown(piece) {
  if (END.test(piece.trim())) return "∎";
  if (piece && !piece.trim()) return piece.includes("\n") ? "⏎" : "␣";
  return piece.trim().replaceAll("\ufffd", "·");
}

// What the bars show: the gate's own figure if that is an entropy, and its threshold; else the entropy, without one.
function barsOf({ gate }, threshold) {
  const own = gate.name === "class-entropy";
  return { own, threshold: (own || gate.name === "entropy") && threshold !== undefined ? threshold : null };
}

// Whether the gate escalates because of a token with this figure.
function unsure(gate, threshold, score) {
  if (threshold === null || threshold === undefined || score === null) return false;
  return gate.below ? score <= threshold : score >= threshold;
}

// A bar over 0 to twice the threshold, so that the line at half height is the threshold.
function gateBar(value, threshold, over) {
  const full = threshold > 0 ? 2 * threshold : FULL_SCALE;
  const level = html("span", { class: "level" });
  level.style.height = `${Math.min(100, (100 * value) / full).toFixed(1)}%`;
  return html("span", { class: `bar${threshold === null ? " free" : ""}${over ? " over" : ""}` }, level);
}

// A token's text behind the sign of its fate; `banned`: the model's own word, where the sound chose another.
function fated(fate, text, banned = null) {
  const sign = WORDS.fates[fate][0];
  return html(
    "span",
    { class: "text" },
    sign ? html("span", { class: "sign", "aria-label": fate }, sign) : null,
    banned === null ? null : html("span", { class: "sign heard" }, WORDS.heard[0]),
    html("span", { class: "piece" }, text),
    banned === null ? null : html("span", { class: "banned" }, ` (${banned})`),
  );
}

function token([piece, fate, entropy, score, banned], run, round) {
  const { own, threshold } = barsOf(run, round.threshold);
  const value = own ? score : entropy;
  const over = unsure(run.gate, round.threshold, score);
  const facts = [WORDS.fates[fate][1]];
  if (banned !== null) facts.push(`chosen by the sound; the model's own word is ${shown(banned)}`);
  if (entropy !== null) facts.push(`entropy ${entropy.toFixed(3)} nats`);
  if (score !== null && run.gate.name !== "entropy" && round.threshold !== null) facts.push(`${run.gate.name} ${score.toFixed(3)}`);
  return html(
    "span",
    { class: `token ${fate}${piece.startsWith(" ") ? " apart" : ""}`, title: facts.join("; ") },
    fated(fate, shown(piece), banned === null ? null : shown(banned)),
    value === null ? html("span", { class: "bar none" }) : gateBar(value, threshold, over),
    html("span", { class: `figure${over ? " over" : ""}` }, value !== null && Math.abs(value) < LEAST_SHOWN ? "" : fixed(value, 2)),
  );
}

// All rounds of a run; `choose(index)` is told of the one that is pointed at.
function tokenText(run, language, choose) {
  const groups = run.rounds.map((round, index) =>
    html(
      "span",
      { class: `round${round.escalated ? " asked" : ""}`, tabindex: index ? -1 : 0, pointerenter: () => choose(index), focus: () => choose(index), click: () => choose(index) },
      ...(round.tokens.length ? round.tokens.map((each) => token(each, run, round)) : [html("span", { class: "token whole" }, round.committed_text)]),
    ),
  );
  const keydown = (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation(); // elsewhere arrows lead to other clips
    groups[groups.indexOf(document.activeElement) + by]?.focus();
  };
  return { element: html("div", { class: "tokens", lang: language, keydown }, ...groups), groups };
}

// What marks a token that the sound chose, where there is one.
function heardKey(tokens, meaning = WORDS.heard[1]) {
  if (!tokens.some(([, , , , banned]) => banned !== null)) return [];
  return [html("span", { class: "key" }, html("span", { class: "sign heard" }, WORDS.heard[0]), html("span", { class: "meaning" }, meaning))];
}

// What the fates that are there look like, and mean; `named` and `meant` may be in another language.
function keysOf(present, named = (fate) => fate.replace("_", " "), meant = (fate) => WORDS.fates[fate][1]) {
  const found = Object.keys(WORDS.fates).filter((fate) => present.has(fate));
  return found.map((fate) => html("span", { class: "key" }, html("span", { class: `token ${fate}` }, fated(fate, named(fate))), html("span", { class: "meaning" }, meant(fate))));
}

function legend(run) {
  const tokens = run.rounds.flatMap((round) => round.tokens);
  const present = new Set(tokens.map((each) => each[1]));
  const { own, threshold } = barsOf(run, run.gate.threshold);
  const what = own ? "entropy over classes in nats" : "entropy in nats";
  const { wake } = run.gate;
  const first = wake === null || wake === undefined ? "" : ` (${wake} for a clip's first call)`;
  const scale = threshold === null ? `, 0 to ${FULL_SCALE}.` : `. The gate escalates from the dashed line up: ${threshold}${first}.`;
  return html("div", { class: "legend" }, ...keysOf(present), ...heardKey(tokens), html("span", { class: "key" }, html("span", { class: "meaning" }, `Bars: ${what}${scale}`)));
}
