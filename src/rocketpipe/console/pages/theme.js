// Before anything is drawn, so that nothing flashes in the other colours.
(() => {
  const chosen = localStorage.getItem("rocketpipe.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
