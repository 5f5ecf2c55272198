/** The modules that a component imports, for checking this package itself. */

declare module 'windlass:runtime/clock@0.1.0' {
  export const now: import('./contract.js').Host['now'];
}

declare module 'windlass:runtime/config@0.1.0' {
  export const get: import('./contract.js').Host['config'];
}

declare module 'windlass:runtime/log@0.1.0' {
  export const write: import('./contract.js').Host['log'];
}

declare module 'wasi:random/random@0.2.0' {
  export const getRandomBytes: (length: number) => Uint8Array;
}

declare module 'windlass:runtime/fleet@0.1.0' {
  export const clusters: import('./contract.js').Fleet['clusters'];
  export const open: import('./contract.js').Fleet['open'];
  export const batch: import('./contract.js').Fleet['batch'];
}

declare module 'windlass:runtime/http@0.1.0' {
  export const send: import('./contract.js').Http['send'];
}
