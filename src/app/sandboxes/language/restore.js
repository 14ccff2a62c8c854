{
  const kept = Symbol.for('sponde.env');
  for (const [name, value] of Object.entries(globalThis[kept] ?? {})) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  delete globalThis[kept];
}
