import type { Completion, CompletionNode, CompletionOption } from './model.js';
import { posixWord } from './shell-word.js';

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
        posixWord(`${index + 1}:${argument.isFile ? 'file' : 'word'}:${actionOf(argument)}`),
      );
      return `${functionOf(path)}() {
  _arguments -s -S \\
${[...specs, ...places].map((spec) => `    ${spec}`).join(' \\\n')}
}`;
    }
    const list = children.map((child) => `    ${posixWord(`${child.name}:${child.description}`)}`);
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
  return flags.map((flag) => posixWord(`*${flag}${text}${place}`)).join(' ');
}

function actionOf({ words, isFile }: Completion): string {
  if (words.length > 0) return `(${words.join(' ')})`;
  return isFile ? '_files' : ' ';
}
