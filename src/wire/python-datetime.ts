/**
 * A time as OPAL writes it: as Python prints a naive UTC datetime, with microseconds and without
 * `Z`. `ms` since 1970.
 */
export function pythonDatetime(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, -1)}000`;
}
