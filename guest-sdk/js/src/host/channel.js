/**
 * Lines over a Unix socket that are answered synchronously, as the contract's functions are. Entry point: `Channel`.
 *
 * Node has no synchronous socket. So a thread of its own has the sockets of this process, and `Channel.ask` stops this thread until the
 * answer has come. A debugger goes on: it has a thread too. The thread's code is a text, so that it is there in a bundle of a test too.
 *
 * @module
 */

import { MessageChannel, Worker, receiveMessageOnPort } from 'node:worker_threads';

/** @import { MessagePort } from 'node:worker_threads' */

/** @typedef {{ socket: string } | { program: string }} Host The path of a socket, or the program that prints one by `fleet`. */

/**
 * What the thread sends: a line, or why there are no more.
 *
 * @typedef {string | { ended: string }} Arrived
 */

/** @type {Worker | undefined} */
let thread;

/** Ends the connection of a channel that nobody uses any longer. */
const unused = new FinalizationRegistry((/** @type {MessagePort} */ port) => port.close());

export class Channel {
  /** @type {MessagePort} */
  #port;
  /** How many messages have arrived. The thread counts them. */
  #arrived = new Int32Array(new SharedArrayBuffer(4));
  /** @type {string | undefined} Why nothing arrives any longer. */
  #ended;
  /** @type {(why: string) => void} */
  #whenEnded = () => {};

  /** @param {Host} host */
  constructor(host) {
    // The thread takes no options of this process: they could load a guest's runner there.
    thread ??= new Worker(`(${serve})()`, { eval: true, execArgv: [] });
    thread.unref();
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    unused.register(this, port1);
    thread.postMessage({ port: port2, arrived: this.#arrived, host }, [port2]);
  }

  /**
   * Sends a line, and waits for the line that answers it.
   *
   * @param {string} line
   */
  ask(line) {
    this.send(line);
    while (this.#ended === undefined) {
      const seen = Atomics.load(this.#arrived, 0);
      /** @type {{ message: Arrived } | undefined} */
      const received = receiveMessageOnPort(this.#port);
      if (received === undefined) Atomics.wait(this.#arrived, 0, seen);
      else if (typeof received.message === 'string') return received.message;
      else this.#end(received.message);
    }
    throw new Error(this.#ended);
  }

  /** @param {string} line */
  send(line) {
    this.#port.postMessage(line);
  }

  /**
   * Calls `each` with the lines that arrive while none is asked for, and then `ended`. Meanwhile the process stays.
   *
   * @param {(line: string) => void} each
   * @param {(why: string) => void} ended
   */
  listen(each, ended) {
    this.#whenEnded = ended;
    this.#port.on('message', (/** @type {Arrived} */ message) => (typeof message === 'string' ? each(message) : this.#end(message)));
  }

  /** @param {{ ended: string }} message */
  #end({ ended }) {
    this.#ended = ended;
    this.#port.close();
    this.#whenEnded(ended);
  }
}

/** The thread. Its code has nothing from around it. */
async function serve() {
  const { spawn } = await import('node:child_process');
  const { connect } = await import('node:net');
  const { parentPort } = await import('node:worker_threads');

  /**
   * Calls `each` with every line of a stream. Only `\n` ends one: the others may be inside of JSON.
   *
   * @param {import('node:stream').Readable} stream
   * @param {(line: string) => void} each
   */
  const read = (stream, each) => {
    let rest = '';
    stream.setEncoding('utf8').on('data', (/** @type {string} */ text) => {
      const [first, ...more] = text.split('\n');
      const complete = [rest + first, ...more];
      rest = complete.pop() ?? '';
      complete.forEach(each);
    });
  };

  /**
   * Starts the program, and answers the path of its socket. It ends with its input: with this process.
   *
   * @param {string} program
   * @returns {Promise<string>}
   */
  const start = (program) =>
    new Promise((resolve, reject) => {
      const child = spawn(program, ['fleet'], { stdio: ['pipe', 'pipe', 'inherit'] });
      child.once('error', ({ message }) => {
        const missing = `the clusters of a test are those of the program windlass, and ${program} cannot be started: ${message}`;
        reject(new Error(`${missing}; put it on the PATH, or name it in WINDLASS_BIN`));
      });
      read(child.stdout, resolve);
      child.stdout.once('close', () => reject(new Error('windlass fleet did not start: its message is above')));
    });

  /** @type {Promise<string> | undefined} */
  let started;

  parentPort?.on('message', async (/** @type {{ port: MessagePort, arrived: Int32Array, host: Host }} */ { port, arrived, host }) => {
    /** @param {Arrived} message */
    const pass = (message) => {
      port.postMessage(message);
      Atomics.add(arrived, 0, 1);
      Atomics.notify(arrived, 0);
    };
    try {
      const socket = connect('socket' in host ? host.socket : await (started ??= start(host.program)));
      let why = 'windlass has ended';
      socket.once('error', ({ message }) => (why = `windlass has ended: ${message}`));
      socket.once('close', () => pass({ ended: why }));
      read(socket, pass);
      port.on('message', (line) => socket.write(`${line}\n`));
      port.once('close', () => socket.destroy());
    } catch (error) {
      pass({ ended: /** @type {Error} */ (error).message });
    }
  });
}
