/** Cases that the embedded engine answers otherwise than OPA's suite expects, why, and what it says instead. */
export const REFUSED: Readonly<Record<string, { readonly why: string; readonly says: RegExp }>> = {
  'net.lookup_ip_addr/localhost': {
    why: 'refused when the policy is loaded: there are no names to look up inside WebAssembly',
    says: /net\.lookup_ip_addr is not available in the embedded engine/,
  },
  'net.lookup_ip_addr/simple ip4 returns that ip4': {
    why: 'refused when the policy is loaded: there are no names to look up inside WebAssembly',
    says: /net\.lookup_ip_addr is not available in the embedded engine/,
  },
  'net.lookup_ip_addr/simple ip6 returns that ip6': {
    why: 'refused when the policy is loaded: there are no names to look up inside WebAssembly',
    says: /net\.lookup_ip_addr is not available in the embedded engine/,
  },
  'time/time caching': {
    why: "not applicable: it needs `test.sleep`, a built-in function that only OPA's own tests have",
    says: /undefined function test\.sleep/,
  },
  'withkeyword/builtin-builtin: arity 0': {
    why: "not applicable: `opa.runtime` is empty in OPA's suite, and has the version here, as in an OPA that runs",
    says: /"version":/,
  },
  'baseandvirtualdocs/base/virtual: conflicts': {
    why: 'refused when the policy is loaded, as a running OPA does: a document stands where a rule is',
    says: /conflicting rule for data path/,
  },
};
