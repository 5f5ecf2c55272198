// The search runs in a worker. A page that was opened as a file may not start one, so its worker is a hidden frame there.
//
// It has what the search uses of a worker: postMessage, the event "message", and importScripts.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(script) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.loaded = new Promise((done) => {
        // Scripts of the frame call these two as they would in a worker.
        this.inside.postMessage = (data) => {
          const message = new MessageEvent("message", { data });
          this.dispatchEvent(message);
          this.onmessage?.(message);
        };
        this.inside.importScripts = (...scripts) =>
          scripts.reduce((before, source) => before.then(() => this.load(source)), Promise.resolve());
        this.load(script).then(done);
      });
    }

    /** Loads a script into the frame. */
    load(source) {
      const element = this.inside.document.createElement("script");
      element.src = source;
      return new Promise((done, failed) => {
        element.onload = done;
        element.onerror = failed;
        this.inside.document.body.append(element);
      });
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
