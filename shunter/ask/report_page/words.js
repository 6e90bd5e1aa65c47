"use strict";
// Numbers as people read them, as the command line writes them; null is a dash.

const NOTHING = "–";

function duration(seconds) {
  if (seconds === null || seconds === undefined) return NOTHING;
  const size = Math.abs(seconds);
  if (size < 120) return `${Number(seconds.toFixed(size >= 10 ? 0 : 1))} s`;
  if (size < 7200) return `${(seconds / 60).toFixed(1)} m`;
  if (size < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${(seconds / 86400).toFixed(1)} d`;
}

function number(value, digits = 0) {
  if (value === null || value === undefined) return NOTHING;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

function percent(share) {
  return share === null || share === undefined ? NOTHING : `${(share * 100).toFixed(1)} %`;
}

// An instant of the log, as `why --at` takes it.
function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (value) => String(value).padStart(2, "0");
  return `T+${two(Math.floor(whole / 3600))}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
}
