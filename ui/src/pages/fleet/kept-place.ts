/**
 * Where somebody left the list for a client: kept with the entry of the history, for whoever comes
 * back to it.
 */
export interface Place {
  /** The client that was opened. */
  readonly id: string;
  /** How far the page was scrolled, in pixels. */
  readonly y: number;
}

export function keepPlace(history: History, place: Place): void {
  history.replaceState({ list: place }, '');
}

export function keptPlace({ state }: { readonly state: unknown }): Place | undefined {
  if (typeof state !== 'object' || state === null || !('list' in state)) return undefined;
  const { list } = state;
  if (typeof list !== 'object' || list === null || !('id' in list) || !('y' in list)) return undefined;
  return typeof list.id === 'string' && typeof list.y === 'number' ? { id: list.id, y: list.y } : undefined;
}
