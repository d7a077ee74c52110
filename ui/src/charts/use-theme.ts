import { useEffect, useState } from 'preact/hooks';

/**
 * The theme of the document, as it is switched: a canvas has to be drawn anew with other colours.
 */
export function useTheme(): string {
  const [theme, setTheme] = useState(read);
  useEffect(() => {
    const observer = new MutationObserver(() => setTheme(read()));
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    return () => observer.disconnect();
  }, []);
  return theme;
}

function read(): string {
  return document.documentElement.dataset.theme ?? '';
}
