/** Cases about how a reconcile ends. Entry point: `end`. */

import { type Requeue, Retry, TerminalError, requeueAfter } from 'windlass-sdk';
import { ConfigMap, type Scene } from './scene';
import { cut } from './settings';

/** Ends the reconcile in the way of the case. */
export function end(name: string, scene: Scene): Requeue | void {
  switch (name) {
    case 'done':
      return;
    case 'requeue':
      return requeueAfter(90_000);
    case 'requeue-now':
      return requeueAfter(0);
    case 'retry':
      throw new Retry('not yet');
    case 'terminal':
      throw new TerminalError('never');
    case 'terminal-cut':
      throw new TerminalError(cut);
    case 'retry-api':
      return void unavailable(scene);
    case 'terminal-api':
      try {
        return void unavailable(scene);
      } catch (error) {
        throw new TerminalError('reading', { cause: error });
      }
    case 'exception':
      throw new Error('broken');
    default:
      throw new TerminalError(`there is no case ${JSON.stringify(name)}`);
  }
}

/** A call that fails. */
function unavailable({ cluster, at }: Scene): ConfigMap | undefined {
  return cluster.get(ConfigMap, at('answers-503'), { live: true });
}
