// The rounds of a run in time: the edge's lane above the cloud's, one button a round.

const LANES = { edge: 0, cloud: 1 };

// Where everything stands, ms from the start: prefills as bare blocks, rounds with their parts.
function schedule(run, mode) {
  const blocks = [];
  const rounds = [];
  const drafter = mode === "cloud" ? "cloud" : "edge";
  let at = 0;
  let heard = false;
  const prefill = (model) => {
    const length = run.prefill[model];
    if (length === null) return;
    blocks.push({ lane: model, start: at, length, kind: "prefill", name: `${model} reads clip and prompt, ${milliseconds(length)}` });
    at += length;
  };
  const hearCloud = () => {
    if (!heard) prefill("cloud");
    heard = true;
  };
  if (drafter === "edge") prefill("edge");
  if (drafter === "cloud" || run.early) hearCloud();
  run.rounds.forEach((round, index) => {
    const parts = [{ lane: drafter, start: at, length: round.draft, kind: "draft" }];
    at += round.draft;
    if (round.escalated) hearCloud();
    if (round.network !== null) {
      parts.push({ lane: "cloud", start: at, length: round.network, kind: "network" });
      at += round.network;
    }
    if (round.verify !== null) {
      parts.push({ lane: "cloud", start: at, length: round.verify, kind: "verify" });
      at += round.verify;
    }
    rounds.push({ index, parts, start: parts[0].start, end: at });
  });
  return { blocks, rounds, end: at };
}

function figureOf(run, round) {
  const { name, threshold, below, unit } = run.gate;
  if (threshold === null || threshold === undefined) return `max entropy ${fixed(round.max, 2)} nats`;
  const scores = round.tokens.map((token) => token[3]).filter((score) => score !== null);
  if (!scores.length) return `max entropy ${fixed(round.max, 2)} nats`;
  const worst = below ? Math.min(...scores) : Math.max(...scores);
  return `${name} ${worst.toFixed(2)}${unit ? ` ${unit}` : ""}, escalates at or ${below ? "below" : "above"} ${threshold}`;
}

// One round in words.
function roundSentence(run, mode, index) {
  const round = run.rounds[index];
  const parts = [`Round ${index + 1} of ${run.rounds.length}`];
  const written = round.drafted || round.committed; // a cloud elsewhere writes without a draft
  if (mode === "cloud") parts.push(`${written} token${written === 1 ? "" : "s"} written by the cloud`);
  else if (round.escalated) parts.push(`cloud verified (${round.reason}): ${round.accepted} of ${round.drafted} drafted tokens accepted`);
  else parts.push(`${round.drafted} drafted token${round.drafted === 1 ? "" : "s"} kept without verification`);
  parts.push(figureOf(run, round));
  const times = [`${mode === "cloud" ? "write" : "draft"} ${milliseconds(round.draft)}`];
  if (round.verify !== null) times.push(`verify ${milliseconds(round.verify)}`);
  if (round.network !== null) times.push(`network ${milliseconds(round.network)}`);
  return `${parts.join("; ")}; ${times.join(", ")}.`;
}

// All rounds in words, for as long as none is pointed at.
function roundsSentence(run, mode) {
  const asked = run.rounds.filter((round) => round.escalated);
  const rounds = `${run.rounds.length} round${run.rounds.length === 1 ? "" : "s"}`;
  if (mode === "cloud") return `${rounds}, all of the cloud's own.`;
  if (!asked.length) return `${rounds}, none escalated.`;
  const reasons = [...new Set(asked.map((round) => round.reason))].map((reason) => `${reason} ${asked.filter((round) => round.reason === reason).length}`);
  return `${rounds}, ${asked.length} escalated (${reasons.join(", ")}).`;
}

// The lanes over `span` ms. `choose(index)` is told of the round under the pointer or the keyboard.
function timeline(run, mode, span, choose) {
  const plan = schedule(run, mode);
  const across = (element, start, length) => {
    element.style.left = `${((100 * start) / span).toFixed(3)}%`;
    element.style.width = `${((100 * length) / span).toFixed(3)}%`;
    return element;
  };
  const block = (part, from, length) => {
    const element = html("span", { class: `block ${part.kind} lane-${LANES[part.lane]}`, title: part.name });
    element.style.left = `${(100 * (part.start - from)) / length}%`;
    element.style.width = `${(100 * part.length) / length}%`;
    return element;
  };
  const track = html("div", { class: "track", role: "toolbar", "aria-label": `Rounds of ${mode} in time; arrow keys move between them` });
  for (const part of plan.blocks) track.append(across(html("span", { class: "bare" }, block(part, part.start, part.length)), part.start, part.length));
  const buttons = plan.rounds.map((round) => {
    const length = Math.max(round.end - round.start, 1e-6);
    const button = html("button", {
      type: "button",
      class: "round-time",
      tabindex: round.index ? -1 : 0,
      "aria-label": roundSentence(run, mode, round.index),
      pointerenter: () => choose(round.index),
      focus: () => choose(round.index),
      click: () => choose(round.index),
    }, ...round.parts.map((part) => block(part, round.start, length)));
    return across(button, round.start, length);
  });
  track.append(...buttons);
  track.addEventListener("keydown", (event) => {
    const now = buttons.indexOf(document.activeElement);
    const step = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (step === undefined || now < 0) return;
    event.preventDefault();
    event.stopPropagation();
    buttons[Math.min(Math.max(step, 0), buttons.length - 1)].focus();
  });
  return { element: track, buttons };
}
