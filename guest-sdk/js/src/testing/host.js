/**
 * The program's side of a fleet of tests: a connection to `windlass fleet`, and the run that goes on. Entry point: `Host`.
 *
 * @module
 */

import { Channel } from '../host/channel.js';

export class Host {
  /** @type {Channel | undefined} Made when it is needed. */
  #channel;
  /** @type {Map<string, number>} The handles of the run that goes on, by cluster. Empty: none does. */
  #handles = new Map();

  /**
   * Does something for the test. The run that goes on ends first, so that its garbage is collected.
   *
   * @param {unknown} asked
   */
  test(asked) {
    this.end();
    return this.#asked(asked);
  }

  /**
   * Calls a host function, as the guest does in a cluster. Throws where a component would trap.
   *
   * @param {unknown} called
   */
  call(called) {
    const answer = this.#send({ Call: called });
    if (typeof answer?.Trap === 'string') throw new Error(answer.Trap);
    return answer;
  }

  /**
   * The handle of a cluster. Begins a run if none goes on.
   *
   * @param {string} name
   * @returns {number}
   */
  handle(name) {
    const there = this.#handles.get(name);
    if (there !== undefined) return there;
    const handle = this.#handles.size === 0 ? this.#asked({ Begin: { cluster: name } }) : this.call({ Open: { name } }).Ok;
    if (typeof handle !== 'number') throw new Error(`there is no handle of the cluster ${JSON.stringify(name)}`);
    this.#handles.set(name, handle);
    return handle;
  }

  /** Ends the run that goes on. */
  end() {
    if (this.#handles.size === 0) return;
    this.#handles.clear();
    this.#asked('End');
  }

  /** @param {unknown} asked */
  #asked(asked) {
    const answer = this.#send({ Test: asked });
    if (typeof answer?.Err === 'string') throw new Error(answer.Err);
    return answer.Ok;
  }

  /**
   * @param {unknown} message
   * @returns {any}
   */
  #send(message) {
    this.#channel ??= new Channel({ program: process.env.WINDLASS_BIN || 'windlass' });
    return JSON.parse(this.#channel.ask(JSON.stringify(message)));
  }
}
