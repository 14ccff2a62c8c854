{
  const set = VARIABLES;
  if (KEEPS === 1) {
    globalThis[Symbol.for('sponde.env')] = Object.fromEntries(Object.keys(set).map((name) => [name, process.env[name]]));
  }
  Object.assign(process.env, set);
}
