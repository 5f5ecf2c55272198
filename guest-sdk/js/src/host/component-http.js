/**
 * The host's function for servers that are no API servers inside a component. A guest that imports this needs a world with `http`.
 *
 * @module
 */

export { send } from 'windlass:runtime/http@0.1.0';
