// Plays the recorded run of the simulator: two clusters side by side, one slider.
(function () {
  "use strict";
  var run = window.HEADGATE_RUN, place = document.getElementById("cluster");
  if (!run || !place) return;
  var titles = {"static": "without Headgate (static)", "flux-load": "with Headgate (flux-load)"};
  var names = Object.keys(run.runs), frames = run.runs[names[0]].length, panels = {};
  var sums = {};
  names.forEach(function (name) {
    var total = 0;
    sums[name] = run.runs[name].map(function (frame) { return total += frame.rows_per_s * run.frame_s; });
  });
  function element(tag, parent, kind, words) {
    var made = document.createElement(tag);
    if (kind) made.className = kind;
    if (words) made.textContent = words;
    parent.appendChild(made);
    return made;
  }
  var event = element("p", place, "cluster-event");
  var pair = element("div", place, "cluster-pair");
  names.forEach(function (name) {
    var panel = element("div", pair, "cluster-panel");
    element("strong", panel, "", titles[name] || name);
    var rate = element("p", panel, "cluster-rate"), bars = element("div", panel, "cluster-bars"), made = [];
    for (var node = 0; node < run.nodes; node++) {
      var bar = element("div", bars, "cluster-bar");
      made.push({fill: element("div", bar, "cluster-fill"), words: element("span", bar, "cluster-bins")});
    }
    panels[name] = {rate: rate, bars: made};
  });
  var tools = element("div", place, "cluster-tools");
  var play = element("button", tools, "md-button", "Play");
  var slider = element("input", tools, "cluster-slider");
  slider.type = "range"; slider.min = 0; slider.max = frames - 1; slider.value = 12;
  slider.setAttribute("aria-label", "time");
  var clock = element("span", tools, "cluster-clock");
  function show(at) {
    var seconds = (at + 1) * run.frame_s, said = "";
    run.events.forEach(function (one) { if (one.at_s < seconds) said = one.what; });
    event.textContent = said;
    clock.textContent = seconds.toFixed(2) + " s";
    names.forEach(function (name) {
      var frame = run.runs[name][at], panel = panels[name];
      panel.rate.textContent = frame.rows_per_s.toLocaleString("en") + " rows/s; " +
        Math.round(sums[name][at]).toLocaleString("en") + " so far";
      frame.busy.forEach(function (busy, node) {
        panel.bars[node].fill.style.height = Math.round(busy * 100) + "%";
        panel.bars[node].fill.style.opacity = 0.35 + 0.65 * busy;
        panel.bars[node].words.textContent = frame.bins[node];
      });
    });
  }
  var timer = null;
  function stop() { clearInterval(timer); timer = null; play.textContent = "Play"; }
  play.addEventListener("click", function () {
    if (timer) return stop();
    if (+slider.value >= frames - 1) slider.value = 0;
    play.textContent = "Pause";
    timer = setInterval(function () {
      if (+slider.value >= frames - 1) return stop();
      slider.value = +slider.value + 1;
      show(+slider.value);
    }, 250);
  });
  slider.addEventListener("input", function () { stop(); show(+slider.value); });
  show(12);
})();
