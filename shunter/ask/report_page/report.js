// The page: sections in order, each from the document in this file. Names go in as text only.

function table(heads, rows, isNumber) {
  const made = element("table"), head = element("thead"), body = element("tbody");
  const cells = (parent, name, texts) => {
    const row = element("tr");
    texts.forEach((text, i) => row.append(element(name, isNumber(i) ? "number" : "", text)));
    parent.append(row);
  };
  cells(head, "th", heads);
  rows.forEach((row) => cells(body, "td", row));
  made.append(head, body);
  return made;
}

function section(title, note, ...parts) {
  const made = element("section");
  made.append(element("h2", "", title));
  if (note) made.append(element("p", "note", note));
  made.append(...parts);
  document.getElementById("report").append(made);
}

const SHOWN = {
  gpu_utilisation: percent,
  preemptions: number,
  migrations: number,
  "finish_time_fairness.mean": (value) => number(value, 2),
  "finish_time_fairness.p99": (value) => number(value, 2),
};

function measures(runs) {
  const first = runs[0].measures;
  const rows = Object.keys(first).map((name) => {
    const shown = SHOWN[name] || duration;
    return [name, ...runs.map((run, i) => {
      const value = run.measures[name], text = shown(value);
      if (!i || value === null || first[name] === null) return text;
      const change = value - first[name];
      return `${text} (${change > 0 ? "+" : ""}${shown(change)})`;
    })];
  });
  const counts = Object.keys(runs[0].counts).map(
    (name) => [`jobs ${name}`, ...runs.map((run) => number(run.counts[name]))]);
  const note = runs.length > 1 ? "In brackets: the difference to the first run." : "";
  section("Measures", note, table(["", ...runs.map((run) => run.label)], [...counts, ...rows], (i) => i > 0));
}

function distributions(runs) {
  const curve = (run, name) => {
    const values = run[name];
    return { name: run.label, x: values, y: values.map((_, i) => i / (values.length - 1 || 1)) };
  };
  const options = { log: true, most: 1, yText: percent };
  for (const [name, title] of [["jct_s", "Completion times"], ["wait_s", "Waiting times"]]) {
    const chart = lineChart(runs.map((run) => curve(run, name)), { ...options, label: `Distribution: ${title}` });
    section(title, "Part of the finished jobs that took at most so long; the time axis is logarithmic.", chart);
  }
}

function overTime(runs) {
  const curve = (run, name) => {
    const values = run.curves[name];
    return { name: run.label, x: values.map((_, i) => i * run.curves.part_s), y: values };
  };
  const chart = (name, label, more) => lineChart(runs.map((run) => curve(run, name)), { label, ...more });
  const note = `Each run is cut into ${runs[0].curves.waiting.length} parts of equal length.`;
  section("Queue length", `Jobs that wait: the mean over each part. ${note}`, chart("waiting", "Queue length over time"));
  section("GPU utilisation", "GPUs in use over GPUs in service, the mean over each part.",
    chart("utilisation", "GPU utilisation over time", { most: 1, yText: percent }));
  section("Preemptions", "How many jobs had to leave their GPUs in each part.",
    chart("preempted", "Preemptions over time"), ...runs.map(preempted));
}

function preempted(run) {
  const box = element("div", "columns"), rules = run.preempted.rules, times = run.preempted.jobs_by_times;
  box.append(
    table([`${run.label}: rule`, "preemptions"], rules.map((each) => [each.rule, number(each.preemptions)]), (i) => i > 0),
    table(["preempted", "jobs"], times.slice(0, 12).map(([count, jobs]) => [`${count} times`, number(jobs)]), (i) => i > 0));
  return box;
}

function reasons(runs) {
  const charts = runs.flatMap((run) => [
    element("h3", "", run.label),
    stackedChart(run.reasons, run.curves.part_s, `Why jobs wait over time under ${run.label}`),
  ]);
  section("Why jobs wait", "How many jobs wait for each reason where each part begins.", ...charts);
}

function onGpus(runs) {
  const charts = runs.flatMap((run) => {
    const left = run.gantt.left_out, parts = [element("h3", "", run.label), new GanttChart(run).figure()];
    if (left) parts.push(element("p", "note", `${number(left)} of the shortest slices are left out.`));
    return parts;
  });
  section("Jobs on GPUs", "", ...charts);
}

function fairness(runs) {
  const heads = ["user", "jobs", "GPU-hours", "share", "mean JCT", "mean wait", "slowdown", "ρ", "preemptions"];
  const parts = runs.flatMap((run) => {
    const rows = run.fairness.rows.map((each) => [each.user || "(no user)", number(each.jobs), number(each.gpu_h, 1),
      percent(each.share), duration(each.jct_s), duration(each.wait_s), number(each.slowdown, 2), number(each.rho, 2),
      number(each.preemptions)]);
    const more = run.fairness.left_out ? `; ${number(run.fairness.left_out)} users with less are left out` : "";
    const index = `Jain's index of their slowdowns: ${number(run.fairness.jain, 3)}${more}`;
    return [element("h3", "", run.label), element("p", "note", index), table(heads, rows, (i) => i > 0)];
  });
  section("Fairness by user",
    "Slowdown is completion time over time on GPUs, ρ completion time over run time alone; means of finished jobs.", ...parts);
}

function worst(runs) {
  const heads = ["job", "user", "GPUs", "JCT", "wait", "slowdown", "preemptions", "ask"];
  const parts = runs.flatMap((run) => [element("h3", "", run.label), table(heads, run.worst.map((job) => [
    `${job.id} ${job.name}`.trim(), job.user, number(job.gpus), duration(job.jct_s), duration(job.wait_s),
    number(job.slowdown, 1), number(job.preemptions), job.ask]),
    (i) => i > 1 && i < 7)]);
  section("Jobs that fared worst", "The finished jobs with the largest slowdowns.", ...parts);
}

function origins(runs) {
  const parts = runs.flatMap((run) => {
    const details = element("details");
    details.append(element("summary", "", `Configuration of ${run.label}`), element("pre", "", run.config));
    const log = `${run.log.url}: ${number(run.log.events)} events, digest ${run.log.digest}`;
    return [element("p", "", `${run.label} (${run.evidence}, seed ${run.seed}): ${log}`), details];
  });
  section("Where this comes from", "", ...parts);
}

function draw() {
  const data = JSON.parse(document.getElementById("data").textContent), runs = data.runs;
  const title = element("h1", "", `Shunter report: ${runs.map((run) => run.label).join(", ")}`);
  const kinds = [...new Set(runs.map((run) => run.evidence))].join(" and ");
  const badge = element("p", "badge", kinds === "simulated" ? "simulated: no number here was measured on a cluster" : kinds);
  document.getElementById("report").append(title, badge);
  for (const part of [measures, distributions, overTime, reasons, onGpus, fairness, worst, origins]) part(runs);
  document.body.dataset.drawn = document.querySelectorAll("canvas").length;
}

window.addEventListener("error", (event) => {
  document.body.dataset.failed = event.message;
});
draw();
