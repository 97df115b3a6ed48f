// Embedded recordings.

// The embedded MP3 of clip `number` as an address that the player can seek in; null without one.
function audioAddress(number) {
  const element = document.getElementById(`audio-${number}`);
  if (!element) return null;
  const bytes = Uint8Array.from(atob(element.textContent.trim()), (letter) => letter.charCodeAt(0));
  return URL.createObjectURL(new Blob([bytes], { type: "audio/mpeg" }));
}
