// A run's text token by token: fate by colour, sign and underline, entropy beneath.

const FATES = {
  edge: ["", "kept from the edge without asking"],
  accepted: ["✓", "drafted by the edge, accepted by the cloud"],
  rejected: ["✗", "drafted by the edge, rejected by the cloud"],
  cut: ["-", "drafted, cut off by a stop rule"],
  corrected: ["→", "the cloud's correction"],
  bonus: ["+", "the cloud's bonus token"],
  cloud: ["◆", "written by the cloud alone"],
};
const FULL_SCALE = 3; // nats of a full bar where no threshold gives the scale
const END = /^(<\|(im_end|endoftext|eot_id|end_of_text|end|eos)\|>|<\/s>|<eos>)$/;

// What cannot be seen is made visible; half a character shows as a dot.
function shown(piece) {
  if (END.test(piece.trim())) return "∎";
  if (piece && !piece.trim()) return piece.includes("\n") ? "⏎" : "␣";
  return piece.trim().replaceAll("\ufffd", "·");
}

const entropyThreshold = (run) => (run.gate.name === "entropy" ? run.gate.threshold : null);

// Whether the gate asks because of a token with this figure.
function unsure(gate, score) {
  if (gate.threshold === null || gate.threshold === undefined || score === null) return false;
  return gate.below ? score <= gate.threshold : score >= gate.threshold;
}

// A bar over 0 to twice the threshold of an entropy gate, so that half height is the threshold.
function entropyBar(entropy, threshold, over) {
  const full = threshold > 0 ? 2 * threshold : FULL_SCALE;
  const level = html("span", { class: "level" });
  level.style.height = `${Math.min(100, (100 * entropy) / full).toFixed(1)}%`;
  return html("span", { class: `bar${threshold === null ? " free" : ""}${over ? " over" : ""}` }, level);
}

function token([piece, fate, entropy, score], run) {
  const [sign, meaning] = FATES[fate];
  const threshold = entropyThreshold(run);
  const measured = entropy !== null;
  const over = unsure(run.gate, score);
  const facts = [meaning];
  if (measured) facts.push(`entropy ${entropy.toFixed(3)} nats`);
  if (measured && threshold === null && run.gate.threshold !== null) facts.push(`${run.gate.name} ${score.toFixed(3)}`);
  return html(
    "span",
    { class: `token ${fate}${piece.startsWith(" ") ? " apart" : ""}`, title: facts.join("; ") },
    html("span", { class: "text" }, sign ? html("span", { class: "sign", "aria-label": fate }, sign) : null, html("span", { class: "piece" }, shown(piece))),
    measured ? entropyBar(entropy, threshold, over) : html("span", { class: "bar none" }),
    html("span", { class: `figure${over ? " over" : ""}` }, measured ? entropy.toFixed(2) : NONE),
  );
}

// All rounds of a run; `choose(index)` is told of the one that is pointed at.
function tokenText(run, language, choose) {
  const groups = run.rounds.map((round, index) =>
    html(
      "span",
      { class: `round${round.escalated ? " asked" : ""}`, pointerenter: () => choose(index), click: () => choose(index) },
      ...(round.text === null ? round.tokens.map((each) => token(each, run)) : [html("span", { class: "token whole" }, round.text)]),
    ),
  );
  return { element: html("div", { class: "tokens", lang: language }, ...groups), groups };
}

function legend(run, mode) {
  const present = new Set(run.rounds.flatMap((round) => round.tokens.map((each) => each[1])));
  const fates = Object.keys(FATES).filter((fate) => present.has(fate));
  const threshold = entropyThreshold(run);
  const scale = threshold === null ? `Bars: entropy, 0 to ${FULL_SCALE} nats` : `Bars: entropy, line at ${threshold} nats, where the cloud is asked`;
  const names = fates.map((fate) => {
    const [sign, meaning] = FATES[fate];
    const name = html("span", { class: `token ${fate}` }, html("span", { class: "text" }, sign ? html("span", { class: "sign" }, sign) : null, html("span", { class: "piece" }, fate)));
    return html("span", { class: "key", title: meaning }, name, html("span", { class: "meaning" }, meaning));
  });
  return html("div", { class: "legend" }, ...names, html("span", { class: "key" }, html("span", { class: "meaning" }, `${scale}.`)));
}
