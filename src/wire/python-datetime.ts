/** A time as Python prints one in UTC without a zone, which is how OPAL has them: microseconds, no `Z`. `ms` since 1970. */
export function pythonDatetime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, -1)}000`;
}
