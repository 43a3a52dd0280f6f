"use strict";
const regard = (() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const ramps = {
    light: [[255, 255, 255], [252, 217, 160], [236, 122, 66], [158, 30, 60], [50, 6, 44]],
    dark: [[21, 21, 29], [74, 30, 84], [178, 52, 84], [245, 144, 66], [255, 246, 190]],
  };
  // A colour for x, a share of the brightest number.
  function colour(x) {
    const stops = ramps[dark.matches ? "dark" : "light"], t = Math.sqrt(Math.min(1, Math.max(0, x))) * (stops.length - 1);
    const i = Math.min(stops.length - 2, Math.floor(t)), f = t - i;
    return stops[i].map((a, n) => a + f * (stops[i + 1][n] - a));
  }
  const number = (x) => (x === 0 ? "0" : x >= 0.001 ? x.toPrecision(3) : x.toExponential(1));
  return { dark, colour, number };
})();
