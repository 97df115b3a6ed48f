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

// A claim of a caption beside what was measured of the sound.
function claimItem([claim, fits]) {
  return html("li", { class: fits ? "right" : "wrong" }, `${claim} `, html("span", { class: "sign", "aria-label": fits ? "fits" : "does not fit" }, fits ? "✓" : "✗"));
}

// One mode's caption and its tokens; a round that is pointed at shows in words.
function modeCard(data, clip, mode) {
  const run = clip.runs[mode];
  const head = html("div", { class: "card-head" }, html("h2", {}, mode), html("p", { class: "small" }, clip.facts[mode]));
  const caption = html("p", { class: "caption", lang: data.language }, clip.captions[mode]);
  const card = html("section", { class: "card", "aria-label": mode }, head, caption);
  if (clip.measured[mode].length) card.append(html("ul", { class: "claims", "aria-label": "Set against the sound" }, ...clip.measured[mode].map(claimItem)));
  if (!run) {
    card.append(html("p", { class: "small" }, "There is no transcript of this run."));
    return card;
  }
  const words = html("p", { class: "detail" }, run.summary);
  const text = tokenText(run, data.language, (index) => {
    words.textContent = run.rounds[index].summary;
    text.groups.forEach((group, at) => group.classList.toggle("chosen", at === index));
  });
  card.append(text.element, words, legend(run));
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
  const part = clip.place === null ? null : html("p", { class: "facts" }, clip.place);
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
    ...data.modes.map((mode) => modeCard(data, clip, mode)),
    html("p", { class: "small" }, "Point at a round for its figures, or move between rounds with the arrow keys."),
  );
}
