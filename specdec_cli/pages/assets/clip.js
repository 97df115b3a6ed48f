// The view of one clip.

function labelsTable(data, clip) {
  const named = data.attributes.filter((attribute) => clip.reference_labels[attribute] !== undefined || data.modes.some((mode) => clip.labels[mode][attribute]));
  if (!named.length) return null;
  const against = Object.keys(clip.reference_labels).length > 0;
  const heads = ["", ...(against ? ["reference"] : []), ...data.modes];
  const cell = (attribute, mode) => {
    const value = clip.labels[mode][attribute] ?? null;
    const truth = clip.reference_labels[attribute];
    if (truth === undefined) return html("td", { "data-column": mode }, value ?? NONE);
    const right = value === truth;
    return html("td", { class: right ? "right" : "wrong", "data-column": mode }, html("span", { class: "sign", "aria-label": right ? "right" : "wrong" }, right ? "✓" : "✗"), ` ${value ?? "none"}`);
  };
  const rows = named.map((attribute) =>
    html(
      "tr",
      {},
      html("th", { scope: "row" }, attribute),
      ...(against ? [html("td", { "data-column": "reference" }, clip.reference_labels[attribute] ?? NONE)] : []),
      ...data.modes.map((mode) => cell(attribute, mode)),
    ),
  );
  const name = against ? "Classes named, against the reference" : "Classes named";
  return html(
    "div",
    { class: "scroll", role: "region", tabindex: 0, "aria-label": name },
    html("table", {}, html("caption", {}, name), html("thead", {}, html("tr", {}, ...heads.map((head) => html("th", { scope: "col" }, head)))), html("tbody", {}, ...rows)),
  );
}

function runFacts(data, clip, mode, run) {
  const facts = [milliseconds(clip.total_ms[mode])];
  if (clip.escalation_rate[mode] !== null) facts.push(`${percent(clip.escalation_rate[mode])} of blocks escalated`);
  if (run && mode !== "cloud" && run.edge_share !== null) facts.push(`${percent(run.edge_share)} of tokens from the edge`);
  if (run && run.finish && run.finish !== "eos") facts.push(`ended by ${run.finish}`);
  if (run?.flags.length) facts.push(run.flags.map((flag) => data.flags[flag]).join(", "));
  return facts.join(" · ");
}

// A claim of a caption beside what was measured of the sound.
function claimItem([claim, fits]) {
  return html("li", { class: fits ? "right" : "wrong" }, `${claim} `, html("span", { class: "sign", "aria-label": fits ? "fits" : "does not fit" }, fits ? "✓" : "✗"));
}

// One mode's caption, its tokens and its timeline; a round that is pointed at shows in both and in words.
function modeCard(data, clip, mode, span) {
  const run = clip.runs[mode];
  const head = html("div", { class: "card-head" }, html("h2", {}, mode), html("p", { class: "small" }, runFacts(data, clip, mode, run)));
  const caption = html("p", { class: "caption", lang: data.language }, clip.captions[mode]);
  const card = html("section", { class: "card", "aria-label": mode }, head, caption);
  if (clip.measured[mode].length) card.append(html("ul", { class: "claims", "aria-label": "Set against the sound" }, ...clip.measured[mode].map(claimItem)));
  if (!run) {
    card.append(html("p", { class: "small" }, "There is no transcript of this run."));
    return card;
  }
  const words = html("p", { class: "detail" }, roundsSentence(run, mode));
  let parts = null;
  const choose = (index) => {
    words.textContent = roundSentence(run, mode, index);
    parts.forEach((elements) => elements.forEach((element, at) => element.classList.toggle("chosen", at === index)));
  };
  const text = tokenText(run, data.language, choose);
  const lanes = timeline(run, mode, span, choose);
  parts = [text.groups, lanes.buttons];
  const names = html("div", { class: "lane-names", "aria-hidden": "true" }, html("span", {}, "edge"), html("span", {}, "cloud"));
  card.append(text.element, html("div", { class: "timeline" }, names, lanes.element), words, legend(run));
  return card;
}

function playerFor(clip, number) {
  const address = audioAddress(number);
  return address && html("audio", { controls: true, preload: "metadata", src: address, "aria-label": `Recording ${clip.name}` });
}

function soundPart(clip, player) {
  if (clip.missing !== null) return html("p", { class: "notice" }, `No picture of the sound: ${clip.missing}`);
  return html("div", { class: "card" }, player, soundPlot(clip.sound, player));
}

// Fills `view` with clip `number`; `neighbours` are the numbers before and after it in the list, or null.
function showClip(view, data, number, neighbours) {
  const clip = data.clips[number - 1];
  const player = playerFor(clip, number);
  const step = (name, to, sign) => (to === null ? html("span", { class: "step off" }, name) : html("a", { class: "step", href: `#clip-${to}`, rel: sign }, name));
  const part = clip.start_s === null ? null : html("p", { class: "facts" }, `${fixed(clip.start_s, 1)} s to ${fixed(clip.end_s, 1)} s of the recording${clip.channel ? `, channel ${clip.channel}` : ""}`);
  const span = Math.max(...data.modes.map((mode) => (clip.runs[mode] ? schedule(clip.runs[mode], mode).end : 0)), 1e-6);
  const texts = clip.reference_texts.length
    ? html("section", { class: "card" }, html("h2", {}, data.texts === "said" ? "What is said" : "Reference"), ...clip.reference_texts.map((text) => html("p", { class: "caption", lang: data.language }, text)))
    : null;
  view.replaceChildren(
    html("nav", { class: "steps", "aria-label": "Clips" }, step("← Previous", neighbours.previous, "prev"), html("span", {}, `${number} / ${data.clips.length}`), step("Next →", neighbours.next, "next")),
    html("h1", { id: "heading-clip", tabindex: -1 }, html("bdi", {}, clip.name)),
    html("p", { class: "facts path" }, html("bdi", {}, clip.file)),
    ...(part ? [part] : []),
    soundPart(clip, player),
    ...(texts ? [texts] : []),
    ...[labelsTable(data, clip)].filter(Boolean),
    ...data.modes.map((mode) => modeCard(data, clip, mode, span)),
    html("p", { class: "small" }, `Timelines of all modes share one scale, 0 to ${milliseconds(span)}: drafting in the edge's lane, verification in the cloud's, hatched while a model encodes the clip and prefills. Point at a round for its figures, or move between rounds with the arrow keys.`),
  );
}
