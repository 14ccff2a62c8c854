// One session's stream, kept up: what is lost comes again by the id of the last item that was seen.

import { post, routes } from "./api.js";
import { apply, lastId, newSession } from "./store.js";

const PATIENCE = [500, 1000, 2000, 5000];

export class Live {
  /** `onChange` is called at most once a frame. */
  constructor(id, onChange) {
    Object.assign(this, { id, onChange, session: newSession(), to: routes(id), tries: 0 });
    /** `opening`, `live`, `lost` or `ended`; `why` says why. */
    this.state = "opening";
    this.why = null;
    this.online = () => this.state === "lost" && this.again(0);
    this.connect();
  }

  connect() {
    addEventListener("online", this.online);
    const source = (this.source = new EventSource(this.to.events(lastId(this.session))));
    source.onopen = () => { this.tries = 0; };
    source.onmessage = (message) => {
      this.become("live");
      if (apply(this.session, JSON.parse(message.data))) this.changed();
      if (this.session.stale) this.refresh();
    };
    source.onerror = () => {
      // What the browser would do itself, but also when the server answers that there is no such session.
      source.close();
      if (source === this.source && this.state !== "ended") this.mend();
    };
  }

  /** The stream broke off: the session is still there, or it has ended, or the server was started again. */
  async mend() {
    try {
      await this.to.snapshot();
      this.again(this.tries ? PATIENCE[1] : 0);
    } catch (error) {
      const wasSeen = lastId(this.session) !== null;
      if (this.state === "ended") return;
      if (error.status === 410 || (error.status === 404 && !wasSeen)) return this.end(error);
      this.become("lost");
      if (error.status === 404) await this.resume();
      else if (error.status !== 401) this.again(PATIENCE[Math.min(this.tries, PATIENCE.length - 1)]);
    }
  }

  /** Goes on from what is on the disk: a server that was started again runs no session, and a person may want one that ended. */
  async resume() {
    try {
      await post("sessions", { resume: this.id });
      if (this.state === "ended") this.become("opening");
      this.again(0);
    } catch (error) {
      if (error.status === 0 && this.state === "lost") this.again(PATIENCE[1]);
      else this.end(error);
    }
  }

  end(why) {
    this.why = why;
    this.close();
    this.changed();
  }

  again(wait) {
    clearTimeout(this.timer);
    this.tries += 1;
    this.timer = setTimeout(() => this.state !== "ended" && this.connect(), wait);
  }

  become(state) {
    if (this.state === state) return;
    this.state = state;
    this.changed();
  }

  changed() {
    if (this.drawing) return;
    this.drawing = true;
    const draw = () => { this.drawing = false; this.onChange(); };
    // A page in the background gets no frames.
    if (document.hidden) setTimeout(draw, 200);
    else requestAnimationFrame(draw);
  }

  /** Outputs that are over their limits, and notebooks that others changed, are as the server has them. */
  async refresh() {
    if (this.refreshing) return;
    this.refreshing = true;
    try {
      if (apply(this.session, await this.to.snapshot())) this.changed();
    } catch {
      this.session.stale = false;
    }
    this.refreshing = false;
  }

  close() {
    this.state = "ended";
    clearTimeout(this.timer);
    this.source.close();
    removeEventListener("online", this.online);
  }
}
