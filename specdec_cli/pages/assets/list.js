// The list of clips: search and order.

const ORDERS = {
  order: () => 0,
  disagreement: (a, b) => b.clip.disagreement - a.clip.disagreement,
  escalation: (a, b) => escalated(b.clip) - escalated(a.clip),
  seconds: (a, b) => (b.clip.duration_s ?? 0) - (a.clip.duration_s ?? 0),
  name: (a, b) => a.clip.name.localeCompare(b.clip.name, undefined, { numeric: true }),
};

// Of the hybrid where it took part, else of whatever mode escalates at all.
function escalated(clip) {
  return clip.escalation_rate.hybrid ?? Math.max(-1, ...Object.values(clip.escalation_rate).filter((rate) => rate !== null));
}

// Clips that hold all words of `query` in their path, captions, references or classes, in the order asked for; of these
// the ones of which the mode `wrong`, if any, names another class than the references.
function arranged(data, query, order, wrong) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found = data.clips
    .map((clip, index) => ({ clip, number: index + 1 }))
    .filter(({ clip }) => !wrong || Object.entries(clip.reference_labels).some(([attribute, named]) => clip.labels[wrong][attribute] !== named))
    .filter(({ clip }) => {
      const text = [clip.file, ...Object.values(clip.captions), ...clip.reference_texts, ...Object.values(clip.reference_labels)].join("\n").toLowerCase();
      return words.every((word) => text.includes(word));
    });
  return found.sort(ORDERS[order]);
}

function listItem(data, { clip, number }) {
  const level = html("span", { class: "level" });
  level.style.width = percent(clip.disagreement);
  const shownMode = data.modes.includes("hybrid") ? "hybrid" : data.modes[0];
  return html(
    "li",
    { value: number },
    html("a", { href: `#clip-${number}` }, html("bdi", {}, clip.name), clip.place === null ? null : ` ${clip.place}`),
    html("span", { class: "gauge" }, html("span", { class: "rail" }, level), ` disagreement ${percent(clip.disagreement)}`),
    html("span", { class: "small" }, clip.summary),
    html("span", { class: "first", lang: data.language }, clip.captions[shownMode]),
  );
}

function showList(list, status, data, items) {
  list.replaceChildren(...items.map((item) => listItem(data, item)));
  const all = data.clips.length;
  status.textContent = items.length === all ? `${all} clip${all === 1 ? "" : "s"}` : `${items.length} of ${all} clips`;
}
