import { defineConfig } from 'vite';

/** The page at `/ui`: static files below one folder, with nothing inline, so that the strictest content security policy holds. */
export default defineConfig({
  root: import.meta.dirname,
  base: '/ui/',
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    emptyOutDir: true,
  },
});
