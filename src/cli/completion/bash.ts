import type { Completion, CompletionNode } from './model.js';
import { posixWord } from './shell-word.js';

/** A completion script for bash 3.2 and newer; it needs nothing but bash and starts no program. */
export function bashCompletion(name: string, nodes: readonly CompletionNode[]): string {
  const inner = nodes.filter(({ path }) => path !== '');
  return `# Completion of ${name} for bash: eval "$(${name} completion bash)"
_${name}() {
  local cur prev cmd word i
  COMPREPLY=()
  cur=\${COMP_WORDS[COMP_CWORD]}
  prev=\${COMP_WORDS[COMP_CWORD-1]}
  # bash splits --flag=value into three words.
  if [ "$cur" = "=" ]; then cur=
  elif [ "$prev" = "=" ] && [ "$COMP_CWORD" -gt 2 ]; then prev=\${COMP_WORDS[COMP_CWORD-2]}
  fi
  cmd=
  i=1
  while [ "$i" -lt "$COMP_CWORD" ]; do
    word="$cmd \${COMP_WORDS[i]}"
    case "\${word# }" in
      ${inner.map(({ path }) => posixWord(path)).join('|')}) cmd="\${word# }" ;;
    esac
    i=$((i + 1))
  done
  case "$cmd $prev" in
${valueRules(nodes).join('\n')}
  esac
  case "$cmd" in
${nodes.map(nodeRule).join('\n')}
  esac
}
_${name}_words() { COMPREPLY=($(compgen -W "$1" -- "$cur")); }
_${name}_files() {
  compopt -o filenames 2>/dev/null
  local IFS=$'\\n'
  COMPREPLY=($(compgen -f -- "$cur"))
}
_${name}_any() {
  case "$cur" in
    -*) _${name}_words "$1" ;;
    *) if [ -n "$3" ]; then _${name}_files; else _${name}_words "$2"; fi ;;
  esac
}
complete -F _${name} ${name}
`;

  function nodeRule({ path, children, options, args }: CompletionNode): string {
    const flags = options.flatMap(({ long, short }) => [long ?? [], short ?? []].flat());
    const words = [...children.map((child) => child.name), ...args.flatMap((argument) => argument.words)];
    const files = args.some(({ isFile }) => isFile) ? 'files' : '';
    return `    ${posixWord(path)}) _${name}_any ${posixWord(flags.join(' '))} ${posixWord(words.join(' '))} ${posixWord(files)} ;;`;
  }

  /** What comes behind an option: one rule for all options and commands with the same completion. */
  function valueRules(all: readonly CompletionNode[]): string[] {
    const places = new Map<string, string[]>();
    for (const { path, options } of all) {
      for (const { long, short, value } of options) {
        if (value === undefined) continue;
        const action = actionOf(value);
        const names = [long ?? [], short ?? []].flat().map((flag) => posixWord(`${path} ${flag}`));
        places.set(action, [...(places.get(action) ?? []), ...names]);
      }
    }
    return [...places].map(([action, names]) => `    ${names.join('|')}) ${action} ;;`);
  }

  function actionOf({ words, isFile, isOptional }: Completion & { readonly isOptional: boolean }): string {
    if (words.length > 0) {
      const action = `_${name}_words ${posixWord(words.join(' '))}; return`;
      // A flag that needs no value may have another one behind it.
      return isOptional ? `case "$cur" in -*) ;; *) ${action} ;; esac` : action;
    }
    if (isFile) return `_${name}_files; return`;
    return isOptional ? ':' : 'return';
  }
}
