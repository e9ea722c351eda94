// Runs before the first paint, so that a chosen theme does not flash in the other one.
(() => {
  const theme = localStorage.getItem("theme");
  if (theme === "dark" || theme === "light") {
    document.documentElement.dataset.theme = theme;
  }
})();
