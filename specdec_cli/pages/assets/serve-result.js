// A run as it is written: blocks with the fate of each token, the pieces over time, classes and figures.

const named = (name) => say(name, WORDS.names[name] ?? name);

const tokensOf = new WeakMap(); // round -> text, fate, entropy and gate's figure of each token, as the server sends them

function verdictOf(round, mode) {
  if (mode === "cloud") return ["cloud", say("by the cloud", "云端生成")];
  if (!round.escalated) return ["edge", say("kept", "保留")];
  const share = `${round.accepted}/${round.draft_ids.length}`;
  if (round.source.includes("corrected")) return ["corrected", say(`corrected, ${share} accepted`, `更正，接受 ${share}`)];
  if (round.source.includes("bonus")) return ["bonus", say(`accepted ${share}, bonus`, `接受 ${share}，附加一词`)];
  return ["accepted", say(`accepted ${share}`, `接受 ${share}`)];
}

const thresholdOf = (round, gate) => (round.waking ? gate.wake : gate.threshold);

// What stands beside a verdict: why the block was verified, the draft's largest entropy, the block's time.
function reasonsOf(round, { mode, gate }) {
  const threshold = thresholdOf(round, gate);
  const facts = [];
  if (WORDS.reasons[round.reason]) facts.push(say(...WORDS.reasons[round.reason]));
  else if (mode === "hybrid" && threshold !== null && round.gate_value !== null) facts.push(`${say("gate", "门控")} ${fixed(round.gate_value, 2)} / ${fixed(threshold, 2)}`);
  if (round.max_entropy !== null) facts.push(`${fixed(round.max_entropy, 2)} nats`);
  return [...facts, milliseconds(round.draft_ms + (round.verify_ms ?? 0) + (round.network_ms ?? 0))].join(" · ");
}

// Tokens as words: marks stay with the word before them.
function wordsOf(round, { gate }) {
  const words = [];
  for (const each of tokensOf.get(round)) {
    const element = token(each, { gate }, { threshold: thresholdOf(round, gate) });
    if (document.documentElement.lang === "zh") element.title = `${WORDS.fates[each[1]][2]}${each[4] === null ? "" : `；由声音选定，模型原本写 ${shown(each[4])}`}${each[2] === null ? "" : `；熵 ${each[2].toFixed(3)}`}`;
    if (words.length && /^\p{P}+$/u.test(each[0])) words.at(-1).push(element);
    else words.push([element]);
  }
  return words.map((elements) => html("span", { class: "word" }, ...elements));
}

function blockOf(round, run) {
  const [kind, verdict] = verdictOf(round, run.mode);
  const head = html("p", { class: "verdict" }, html("b", { class: kind }, verdict), html("span", { class: "small" }, reasonsOf(round, run)));
  return html("li", { class: `round${round.escalated ? " asked" : ""}` }, head, html("div", { class: "words" }, ...wordsOf(round, run)));
}

function legendOf(rounds, { gate }) {
  const tokens = rounds.flatMap((round) => tokensOf.get(round));
  const found = new Set(tokens.map((each) => each[1]));
  const figure = gate.name === "class-entropy" ? say("entropy over classes in nats", "类别间的熵（nats）") : say("entropy in nats", "熵（nats）");
  const line = barsOf({ gate }, gate.threshold).threshold === null ? "" : say(", the dashed line is the threshold", "，虚线为阈值");
  const keys = keysOf(found, (fate) => say(fate.replace("_", " "), "词"), (fate) => say(...WORDS.fates[fate].slice(1)));
  keys.push(...heardKey(tokens, say(...WORDS.heard.slice(1))));
  const texts = [say(`Bars: ${figure}${line}.`, `柱：${figure}${line}。`), say("Beside each verdict: the gate's figure of the block and its threshold, the draft's largest entropy, the time.", "结论旁：该块的门控值与阈值、草稿的最大熵、用时。")];
  return [...keys, ...texts.map((text) => html("span", { class: "key meaning" }, text))];
}

// An attribute: its class, the probabilities of all, and what is measured of it.
function tileOf(name, { labels, scores, measured, agrees }) {
  const classes = Object.entries(scores?.[name]?.classes ?? {});
  const [field, digits, factor, ...unit] = WORDS.figures[name] ?? [];
  const value = measured?.[field] ?? null;
  const fits = { true: say("✓ fits", "✓ 相符"), false: say("✗ does not fit", "✗ 不符") }[agrees?.[name]];
  const rows = classes.map(([class_, p]) => {
    const level = html("span", { class: "level" });
    level.style.width = percent(p, 1);
    const parts = [html("span", {}, named(class_)), html("span", { class: "rail" }, level), html("span", { class: "share" }, percent(p))];
    return html("li", { class: class_ === labels[name] ? "named" : null }, ...parts);
  });
  return html(
    "section",
    { class: `tile${classes.length > 4 ? " large" : ""}` },
    html("h3", {}, named(name)),
    html("b", {}, labels[name] === null ? say("not named", "未提及") : named(labels[name])),
    html("ul", {}, ...rows),
    value === null ? null : html("p", {}, `${say("measured", "测得")} ${(factor * value).toFixed(digits)}${say(...unit)}`, fits ? html("span", { class: `fits ${agrees[name]}` }, fits) : null),
  );
}

function factsOf({ rounds, totals, timing, finish_reason }) {
  const facts = [
    [milliseconds(timing.total_ms), say("decoding", "解码")],
    [`${totals.escalations} / ${rounds.length}`, say("blocks verified", "块经云端核对")],
    [percent(totals.acceptance_rate), say("of verified drafts accepted", "的被核对草稿获接受")],
    [percent(totals.edge_token_share), say("of tokens from the edge", "的词来自端侧")],
    [finish_reason === "eos" ? NONE : finish_reason, say("ended it", "使其结束")],
  ];
  const known = facts.filter(([figure]) => figure !== NONE);
  return html("dl", { class: "totals" }, ...known.map(([figure, words]) => html("div", {}, html("dt", {}, words), html("dd", {}, figure))));
}

// What to know of a caption: what makes it no description, and why there is none.
function noticesOf(final) {
  const texts = [...(final?.flags ?? []).map((flag) => say(...WORDS.flags[flag])), ...(final?.degraded ? [final.degraded] : []), ...(final?.error ? [final.error.message] : [])];
  return texts.map((text) => html("p", { class: "notice" }, text));
}

// What lies below the caption: its classes beside what is measured, and its blocks.
function resultOf(run, rounds, final) {
  const named_ = Object.keys(final?.labels ?? {}).filter((name) => final.labels[name] !== null || final.scores?.[name]);
  const tiles = named_.sort((name) => (name === "emotion" ? -1 : 0)).map((name) => tileOf(name, final));
  return [
    ...(tiles.length ? [html("h2", {}, say("Classes and measurements", "类别与测量")), html("p", { class: "small" }, say("Percentages are what the model believes: too high for new voices.", "百分比是模型自己的判断，对新的说话人偏高。")), html("div", { class: "tiles" }, ...tiles)] : []),
    html("h2", {}, say("How it was written", "生成过程")),
    html("ol", { class: "blocks" }, ...rounds.map((round) => blockOf(round, run))),
    ...(final?.totals ? [factsOf(final)] : []),
    html("div", { class: "legend" }, ...legendOf(rounds, run)),
  ];
}

// Pieces over the recording's time, a button each; `choose(index)` shows one.
function timelineOf(pieces, seconds, open, choose) {
  const end = Math.max(seconds ?? 0, ...pieces.map((piece) => piece.end_s));
  const { lane, put } = laneOf(end, 500, { role: "group", "aria-label": say("Pieces of the recording", "录音的各段") });
  for (const { index, start_s, end_s, final } of pieces) {
    const emotion = final?.labels?.emotion ?? null;
    const kind = Object.keys(final?.scores?.emotion?.classes ?? {}).indexOf(emotion);
    const words = `${exactly(start_s)}–${exactly(end_s)}${emotion === null ? "" : `, ${named(emotion)}`}`;
    const state = { type: "button", class: `span kind-${Math.max(0, kind)}${final ? "" : " running"}`, title: words, "aria-label": words };
    put(html("button", { ...state, "aria-pressed": String(index === open), "data-key": index, click: () => choose(index) }, emotion === null ? "" : named(emotion)), start_s, end_s - start_s);
  }
  return lane;
}

// The recording as a whole: shares of time by class and by speaker.
function wholeOf({ classes, speakers }) {
  const shares = (parts) => Object.entries(parts).map(([name, share]) => `${named(name)} ${percent(share)}`).join(", ");
  const kinds = [...Object.entries(classes).map(([name, parts]) => [named(name), parts]), [say("speaker", "说话人"), speakers]];
  const found = kinds.filter(([, parts]) => Object.keys(parts).length).map(([name, parts]) => `${name}: ${shares(parts)}`);
  return html("p", { class: "whole" }, found.join(" · "));
}

// Buttons to the pieces before and after the one that is shown.
function stepper(pieces, open, choose) {
  const at = pieces.findIndex((piece) => piece.index === open);
  const step = (to, key, sign, words) => html("button", { type: "button", "data-key": key, "aria-label": words, disabled: !to, click: () => choose(to.index) }, sign);
  const when = ` ${at + 1} / ${pieces.length} · ${exactly(pieces[at].start_s)}–${exactly(pieces[at].end_s)} `;
  return html("p", { class: "pills" }, step(pieces[at - 1], "before", "←", say("Previous piece", "上一段")), when, step(pieces[at + 1], "after", "→", say("Next piece", "下一段")));
}
