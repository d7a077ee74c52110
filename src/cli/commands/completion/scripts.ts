import { quotedWord } from '../../../lib/run/shell-word.js';
import type { Completion, CompletionNode, CompletionOption } from './model.js';

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
      ${inner.map(({ path }) => quotedWord(path)).join('|')}) cmd="\${word# }" ;;
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
    return `    ${quotedWord(path)}) _${name}_any ${quotedWord(flags.join(' '))} ${quotedWord(words.join(' '))} ${quotedWord(files)} ;;`;
  }

  /**
   * What comes behind an option: one rule for all options and commands with the same completion.
   */
  function valueRules(all: readonly CompletionNode[]): string[] {
    const places = new Map<string, string[]>();
    for (const { path, options } of all) {
      for (const { long, short, value } of options) {
        if (value === undefined) continue;
        const action = valueAction(value);
        const names = [long ?? [], short ?? []].flat().map((flag) => quotedWord(`${path} ${flag}`));
        places.set(action, [...(places.get(action) ?? []), ...names]);
      }
    }
    return [...places].map(([action, names]) => `    ${names.join('|')}) ${action} ;;`);
  }

  function valueAction({ words, isFile, isOptional }: Completion & { readonly isOptional: boolean }): string {
    if (words.length > 0) {
      const action = `_${name}_words ${quotedWord(words.join(' '))}; return`;
      // A flag that needs no value may have another one behind it.
      return isOptional ? `case "$cur" in -*) ;; *) ${action} ;; esac` : action;
    }
    if (isFile) return `_${name}_files; return`;
    return isOptional ? ':' : 'return';
  }
}

/** A completion script for zsh, to be evaluated, or kept as `_<name>` in a folder of `fpath`. */
export function zshCompletion(name: string, nodes: readonly CompletionNode[]): string {
  return `#compdef ${name}
# Completion of ${name} for zsh: source <(${name} completion zsh)
${nodes.map(nodeFunction).join('\n')}
if [ "$funcstack[1]" = "_${name}" ]; then
  _${name} "$@"
else
  compdef _${name} ${name}
fi
`;

  function functionOf(path: string): string {
    return path === '' ? `_${name}` : `_${name}_${path.replaceAll(/[^a-z]/g, '_')}`;
  }

  function nodeFunction({ path, children, options, args }: CompletionNode): string {
    const specs = options.map(optionSpec);
    if (children.length === 0) {
      const places = args.map((argument, index) =>
        quotedWord(`${index + 1}:${argument.isFile ? 'file' : 'word'}:${actionOf(argument)}`),
      );
      return `${functionOf(path)}() {
  _arguments -s -S \\
${[...specs, ...places].map((spec) => `    ${spec}`).join(' \\\n')}
}`;
    }
    const list = children.map((child) => `    ${quotedWord(`${child.name}:${child.description}`)}`);
    const cases = children.map(
      (child) => `        ${child.name}) ${functionOf(path === '' ? child.name : `${path} ${child.name}`)} ;;`,
    );
    return `${functionOf(path)}() {
  local curcontext="$curcontext" state line
  local -a commands
  commands=(
${list.join('\n')}
  )
  _arguments -C \\
${specs.map((spec) => `    ${spec} \\`).join('\n')}
    '1: :->command' '*:: :->rest'
  case "$state" in
    command) _describe -t commands command commands ;;
    rest)
      case "$line[1]" in
${cases.join('\n')}
      esac ;;
  esac
}`;
  }
}

function optionSpec({ long, short, description, value }: CompletionOption): string {
  const flags = [short ?? [], long ?? []].flat();
  const text = `[${description.replaceAll(/[[\]\\]/g, '\\$&').replaceAll(':', '\\:')}]`;
  const place = value === undefined ? '' : `${value.isOptional ? '::' : ':'}value:${actionOf(value)}`;
  // `*`: an option may be repeated.
  return flags.map((flag) => quotedWord(`*${flag}${text}${place}`)).join(' ');
}

function actionOf({ words, isFile }: Completion): string {
  if (words.length > 0) return `(${words.join(' ')})`;
  return isFile ? '_files' : ' ';
}

/** A completion script for fish 3. */
export function fishCompletion(name: string, nodes: readonly CompletionNode[]): string {
  const paths = nodes.map(({ path }) => path).filter((path) => path !== '');
  return `# Completion of ${name} for fish: ${name} completion fish | source
function __${name}_at
    set -l at ''
    for word in (commandline -opc)[2..-1]
        set -l next (string trim -- "$at $word")
        contains -- "$next" ${paths.map(fishWord).join(' ')}
        and set at "$next"
    end
    test "$at" = "$argv[1]"
end
complete -c ${name} -f
${nodes.flatMap(nodeLines).join('\n')}
`;

  function nodeLines({ path, children, options, args }: CompletionNode): string[] {
    const start = `complete -c ${name} -n ${fishWord(`__${name}_at ${fishWord(path)}`)}`;
    return [
      ...children.map((child) => `${start} -a ${child.name} -d ${fishWord(child.description)}`),
      ...options.map((option) => `${start} ${optionText(option)}`),
      ...args.filter(({ words }) => words.length > 0).map(({ words }) => `${start} -a ${fishWord(words.join(' '))}`),
      ...(args.some(({ isFile }) => isFile) ? [`${start} -F`] : []),
    ];
  }
}

function optionText({ long, short, description, value }: CompletionOption): string {
  const flags = [
    ...(short === undefined ? [] : [`-s ${short.replace(/^-+/, '')}`]),
    ...(long === undefined ? [] : [`-l ${long.replace(/^-+/, '')}`]),
  ];
  return [...flags, ...(value === undefined ? [] : valueText(value)), `-d ${fishWord(description)}`].join(' ');
}

function valueText({ words, isFile, isOptional }: Completion & { readonly isOptional: boolean }): string[] {
  if (words.length > 0)
    return [isOptional ? '' : '-x', `-a ${fishWord(words.join(' '))}`].filter((part) => part !== '');
  if (isFile) return ['-r', '-F'];
  return isOptional ? [] : ['-x'];
}

/** A text as one word for fish. */
function fishWord(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
