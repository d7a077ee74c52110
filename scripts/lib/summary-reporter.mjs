/** A reporter of `node --test` that gives only the run's own totals (`tests 12`, `pass 11`, `fail 1`, ...). */
export default async function* summary(events) {
  for await (const { type, data } of events) {
    if (type === 'test:diagnostic' && data.nesting === 0 && /^[a-z_]+ [\d.]+$/.test(data.message)) {
      yield `${data.message}\n`;
    }
  }
}
