import { effect, type ReadonlySignal, signal } from '@preact/signals';
import { kept } from './kept';

export type Theme = 'light' | 'dark';

export interface ThemeChoice {
  readonly theme: ReadonlySignal<Theme>;
  /** Changes to the other one, and keeps that for the next visit. */
  flip(): void;
}

/**
 * The theme follows the system until it is switched; then it is kept. Written into `data-theme` of
 * the document.
 */
export function createTheme(win: Window): ThemeChoice {
  const dark = win.matchMedia('(prefers-color-scheme: dark)');
  const ofSystem = (): Theme => (dark.matches ? 'dark' : 'light');
  const store = kept(win, 'policysync-theme');
  const chosen = store.read();
  let isKept = chosen === 'light' || chosen === 'dark';
  const theme = signal<Theme>(chosen === 'light' || chosen === 'dark' ? chosen : ofSystem());
  dark.addEventListener('change', () => {
    if (!isKept) theme.value = ofSystem();
  });
  effect(() => {
    win.document.documentElement.dataset.theme = theme.value;
  });
  return {
    theme,
    flip() {
      theme.value = theme.value === 'dark' ? 'light' : 'dark';
      isKept = true;
      store.write(theme.value);
    },
  };
}
