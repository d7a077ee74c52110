/**
 * A choice that the browser keeps until the next visit. Where it may keep nothing, the choice is of
 * this visit.
 */
export interface Kept {
  read(): string | null;
  write(text: string): void;
}

export function kept(win: Window, key: string): Kept {
  return {
    read() {
      try {
        return win.localStorage.getItem(key);
      } catch {
        return null;
      }
    },
    write(text) {
      try {
        win.localStorage.setItem(key, text);
      } catch {
        // Storage is full or forbidden: the choice holds until the page is closed.
      }
    },
  };
}
