if (typeof globalThis.require === 'undefined' && typeof globalThis.Deno !== 'undefined') {
  globalThis.require = (await import('node:module')).createRequire(Deno.cwd() + '/');
}
