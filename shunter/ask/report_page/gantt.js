// Jobs on GPUs: a row for each GPU, a colour for each job. The wheel zooms, dragging moves, and what
// is under the pointer is told below; the arrow keys, + and - do the same.

class GanttChart {
  constructor(run) {
    this.run = run;
    this.tick = run.gantt.tick_us / 1e6;
    this.span = Math.max(1, Math.ceil(run.end_us / run.gantt.tick_us));
    this.from = 0;
    this.to = this.span;
    this.rows = run.gantt.rows.map((row) => this.decoded(row));
    this.high = Math.max(2, Math.min(14, Math.floor(900 / Math.max(1, this.rows.length))));
    const label = `Gantt chart of jobs on ${this.rows.length} GPUs under ${run.label}`;
    [this.canvas, this.context] = canvasOf(WIDTH, this.rows.length * this.high + 24, label);
    this.canvas.tabIndex = 0;
    this.told = element("p", "told", "move the pointer over a job; the wheel zooms, dragging moves");
    this.listen();
    this.draw();
  }

  // A row is a flat list of gap, length and job; each is told from the end of the one before.
  decoded(row) {
    const found = [], flat = row.slices;
    let end = 0;
    for (let i = 0; i < flat.length; i += 3) {
      const first = end + flat[i];
      end = first + flat[i + 1];
      found.push([first, end, flat[i + 2]]);
    }
    return { name: row.name, slices: found };
  }

  x(tick) {
    return FRAME.left + (WIDTH - FRAME.left - FRAME.right) * ((tick - this.from) / (this.to - this.from));
  }

  draw() {
    const context = this.context;
    let marks = 0;
    context.clearRect(0, 0, WIDTH, this.rows.length * this.high + 24);
    context.fillStyle = "#555";
    this.rows.forEach((row, i) => {
      const top = i * this.high;
      if (this.high >= 10 || i % Math.ceil(12 / this.high) === 0) {
        context.fillStyle = "#555";
        context.textAlign = "right";
        context.fillText(row.name.length > 11 ? `…${row.name.slice(-10)}` : row.name, FRAME.left - 4, top + 9);
      }
      for (const [first, last, job] of row.slices) {
        if (last < this.from || first > this.to) continue;
        const left = Math.max(FRAME.left, this.x(first));
        const wide = Math.min(WIDTH - FRAME.right, this.x(last)) - left;
        context.fillStyle = `hsl(${(job * 137.508) % 360} 55% 55%)`;
        context.fillRect(left, top, Math.max(wide, 0.4), this.high > 3 ? this.high - 1 : this.high);
        marks += 1;
      }
    });
    context.fillStyle = "#555";
    context.textAlign = "center";
    for (let i = 0; i <= 4; i += 1) {
      const tick = this.from + ((this.to - this.from) * i) / 4;
      const at = Math.min(WIDTH - 50, Math.max(FRAME.left + 30, this.x(tick)));
      context.fillText(clock(tick * this.tick), at, this.rows.length * this.high + 16);
    }
    this.canvas.dataset.marks = marks;
  }

  zoom(by, around) {
    const wide = Math.min(this.span, Math.max(10, (this.to - this.from) * by));
    const part = (around - this.from) / (this.to - this.from);
    this.show(around - wide * part, wide);
  }

  show(from, wide) {
    this.from = Math.max(0, Math.min(this.span - wide, from));
    this.to = this.from + wide;
    this.draw();
  }

  tickAt(event) {
    const inner = WIDTH - FRAME.left - FRAME.right;
    return this.from + ((event.offsetX - FRAME.left) / inner) * (this.to - this.from);
  }

  tell(event) {
    const row = this.rows[Math.floor(event.offsetY / this.high)], tick = this.tickAt(event);
    const slice = row && row.slices.find(([first, last]) => first <= tick && tick < last);
    const when = clock(tick * this.tick);
    if (!slice) {
      this.told.textContent = row ? `${row.name}, ${when}: free` : "";
      return;
    }
    const jobs = this.run.jobs_by_ordinal, [first, last, job] = slice;
    const name = jobs.names[job] ? ` ${jobs.names[job]}` : "";
    const user = jobs.users[jobs.user[job] || 0];
    this.told.textContent =
      `${row.name}, ${when}: ${jobs.ids[job]}${name}${user ? ` of ${user}` : ""}, ${jobs.gpus[job]} GPUs, ` +
      `${clock(first * this.tick)} to ${clock(last * this.tick)} (${duration((last - first) * this.tick)})`;
  }

  listen() {
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.tickAt(event));
    }, { passive: false });
    this.canvas.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) {
        const inner = WIDTH - FRAME.left - FRAME.right, wide = this.to - this.from;
        this.show(this.from - (event.movementX / inner) * wide, wide);
      }
      this.tell(event);
    });
    this.canvas.addEventListener("keydown", (event) => {
      const wide = this.to - this.from, middle = this.from + wide / 2;
      if (event.key === "+") this.zoom(0.8, middle);
      else if (event.key === "-") this.zoom(1.25, middle);
      else if (event.key === "ArrowLeft") this.show(this.from - wide / 10, wide);
      else if (event.key === "ArrowRight") this.show(this.from + wide / 10, wide);
      else return;
      event.preventDefault();
    });
  }

  figure() {
    const figure = element("figure");
    figure.append(this.canvas, this.told);
    return figure;
  }
}
