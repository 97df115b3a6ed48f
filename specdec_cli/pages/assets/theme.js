// Colours: as the system has them, light, or dark; the choice is kept.

const THEMES = ["automatic", "light", "dark"];

function remembered() {
  try {
    return localStorage.getItem("specdec-colours");
  } catch {
    return null; // some browsers keep nothing for local files
  }
}

function colours(theme) {
  if (theme === "automatic") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  document.getElementById("theme").lastElementChild.textContent = theme;
  try {
    localStorage.setItem("specdec-colours", theme);
  } catch {
    // as above
  }
}

document.getElementById("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "automatic";
  colours(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});
const kept = remembered();
colours(THEMES.includes(kept) ? kept : "automatic");
