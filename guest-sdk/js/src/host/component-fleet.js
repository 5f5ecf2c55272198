/**
 * The host's functions for other clusters inside a component. A guest that imports this needs a world with `fleet`.
 *
 * @module
 */

export { batch, clusters, open } from 'windlass:runtime/fleet@0.1.0';
