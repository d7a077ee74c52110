import type { Completion, CompletionNode, CompletionOption } from './model.js';
import { fishWord } from './shell-word.js';

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
