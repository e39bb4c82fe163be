"""Modules import downwards only, stay small, and each heavy package has owners. A new module takes its place in LAYERS, lowest first."""
import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent/'ramabana'
LAYERS = '''core names config
pii_view pii_labels pii_checks pii_patterns pii_address pii_secrets pii_tables pii_words pii_names pii
sections terms encode fuse
schema engine backup vectors store catalog marks lifetime recall upkeep topics picture past
files ignore walk markup addresses fetch readers folders scan filing reencode
robots pages websearch research
schedules jobs actions housekeeping notify watches
watching
code_names code_python code_tree code_files code_rank code_store code federate indexes export restore importers salvage models localmodel citations grounds prompts fields leaks ledger graph gather ask questions shape memory
gitio gitstore learned_journal learned_guard learned_candidates learned_queue learned_undo learned_compact learned_switch learned_text learned
roots shell background gitread host spec workspace code_tools frames tools opening errands vault tool_schemas
budget evidence scope sandbox chatmodel rag_text rag_base rag analysis compaction policy agents
briefing agent show show_code place standing show_answers keeping overview session cli mcp_clients mcp web
testing'''.split()
RANK = {name: rank for rank, name in enumerate(LAYERS)}
MODULES = sorted(p.stem for p in PACKAGE.glob('*.py') if not p.stem.startswith('_'))
OWNERS = dict(litesearch='fuse readers', rishi='localmodel chatmodel', xllamacpp='localmodel', model2vec='encode', onnxruntime='encode', apsw='engine', fastlite='engine',
    apswutils='engine', numkong='vectors', pydantic_ai='chatmodel rag analysis compaction policy agents agent', git='gitio', tomlkit='config',
    cyclopts='cli learned', rgapi='federate host readers', stdnum='pii', phonenumbers='pii', pydantic_monty='sandbox', charset_normalizer='files',
    selectolax='markup', pdf_oxide='readers', yaml='readers', ast_grep_py='code_tree', trafilatura='pages', protego='robots', brotli='fetch', ddgs='websearch', mcp='mcp', uvicorn='mcp', prompt_toolkit='session', cronsim='schedules',
    tzlocal='schedules', apprise='notify')
RESTS_ON_PYDANTIC_AI = set('rag_base rag analysis compaction policy'.split())   # its classes are their base classes: others import these modules inside functions
MAX_MODULE, MAX_FUNCTION, MAX_METHODS = 400, 40, 8
FACADES = {'SpecHost', 'WorkCalls', 'Conversation', 'VaultShape', 'Vault', 'VaultWatches', 'VaultReader', 'VaultWriter', 'VaultKeeper', 'LocalHost', 'NullHost', 'VaultHost', 'WorkspaceHost', 'Agent', 'EvidenceHooks', 'EvidenceSource'}   # as many methods as their contract names

def tree(module): return ast.parse((PACKAGE/f'{module}.py').read_text())

def imported(module):
    "Modules of the package that `module` imports, anywhere in its code."
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield from [node.module.split('.')[0]] if node.module else [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or '').startswith('ramabana.'): yield node.module.split('.')[1]

def packages(node):
    "Top-level names of the packages that an import statement names."
    if isinstance(node, ast.Import): return {a.name.split('.')[0] for a in node.names}
    if isinstance(node, ast.ImportFrom) and not node.level: return {node.module.split('.')[0]}
    return set()

def test_every_module_has_a_layer():
    assert not set(MODULES) - set(RANK)

@pytest.mark.parametrize('module', MODULES)
def test_imports_point_down(module):
    wrong = [name for name in imported(module) if name in RANK and RANK[name] >= RANK[module]]
    assert not wrong, f'{module} imports {wrong}, which is not below it: pass what it needs as an argument instead'

@pytest.mark.parametrize('module', MODULES)
def test_heavy_packages_stay_with_their_owners(module):
    used = set().union(*(packages(node) for node in ast.walk(tree(module))))
    wrong = {name for name in used & set(OWNERS) if module.split('_')[0] not in OWNERS[name].split() and module not in OWNERS[name].split()}
    assert not wrong, f'{module} imports {wrong}, which belong to {[OWNERS[n] for n in wrong]}'

@pytest.mark.parametrize('module', MODULES)
def test_heavy_packages_load_inside_functions(module):
    top = set().union(set(), *(packages(node) for node in tree(module).body))
    if module in RESTS_ON_PYDANTIC_AI: top -= {'pydantic_ai'}
    assert not top & (set(OWNERS) | {'numpy'}), f'{module} imports {top & (set(OWNERS) | {"numpy"})} at its top: import it where it is first needed'

@pytest.mark.parametrize('module', [m for m in MODULES if m not in RESTS_ON_PYDANTIC_AI])
def test_modules_that_rest_on_pydantic_ai_load_inside_functions(module):
    names = {n.module.removeprefix('ramabana.').lstrip('.') for n in tree(module).body if isinstance(n, ast.ImportFrom) and n.module}
    assert not names & RESTS_ON_PYDANTIC_AI

@pytest.mark.parametrize('module', MODULES)
def test_module_is_small_enough_to_read(module):
    lines = len((PACKAGE/f'{module}.py').read_text().splitlines())
    assert lines <= MAX_MODULE, f'{module}.py has {lines} lines: split it where its notebook changes subject'

@pytest.mark.parametrize('module', MODULES)
def test_functions_and_classes_are_small_enough_to_read(module):
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno - node.lineno + 1 <= MAX_FUNCTION, f'{module}.{node.name} is too long'
        if isinstance(node, ast.ClassDef) and node.name not in FACADES:
            public = [n.name for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and not n.name.startswith('_')]
            assert len(public) <= MAX_METHODS, f'{module}.{node.name} has {len(public)} public methods: {public}'
