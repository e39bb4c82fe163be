"""Folders in a vault: what is read, what is told, what survives."""
import os

import pytest
from ramabana import folders
from ramabana.core import AgentError
from ramabana.memory import Vault
from cases_of import case

@pytest.fixture
def vault(tmp_path):
    with Vault(tmp_path/'vault.db') as v: yield v

@pytest.fixture
def root(tmp_path):
    (tmp_path/'root').mkdir()
    return tmp_path/'root'

def test_a_second_run_writes_nothing(vault, root):
    for i in range(5): (root/f'{i}.md').write_text(f'# Note {i}\nAbout rivers.\n')
    for f in root.iterdir(): os.utime(f, (1e9, 1e9))
    assert vault.add_dir(root)['added'] == 5
    before = vault.store.engine.rows('select * from docs'), vault.store.engine.conn.total_changes()
    again = vault.add_dir(root)
    assert (again['unchanged'], again['added'], again['updated'], again['skipped']) == (5, 0, 0, [])
    assert (vault.store.engine.rows('select * from docs'), vault.store.engine.conn.total_changes()) == before

@case('unicode-eol-05')
def test_line_ends_are_no_change_of_a_file(vault, root, report):
    for text, told in zip(report['input']['contents'], ('added', 'unchanged')):
        (root/'f.md').write_bytes(text.encode())
        assert vault.add_dir(root)[told] == 1

@case('files-walk-10')
@pytest.mark.skipif(os.name != 'posix' or os.geteuid() == 0, reason='the owner of everything can read everything')
def test_an_unreadable_file_is_counted(vault, root, report):
    (root/'shut.md').write_text('secret')
    (root/'shut.md').chmod(0)
    said = vault.add_dir(root)
    assert [s['path'] for s in said['skipped']] == ['shut.md'] and said['skipped'][0]['error']

@case('files-walk-08')
def test_a_nul_in_a_text_is_dropped(vault, root, report):
    (root/'nul.txt').write_bytes(report['input']['file_bytes'].encode().decode('unicode_escape').encode())
    said = vault.add_dir(root)
    assert said['added'] == 1 and 'NUL' in said['notes'][0] and vault.document('nul.txt')['text'] == 'helloneedle'

@case('files-walk-04')
def test_a_link_out_of_the_folder_is_not_read(vault, root, tmp_path, report):
    (tmp_path/'outside.md').write_text('# Outside\nneedle\n')
    (root/'evil.md').symlink_to(tmp_path/'outside.md')
    said = vault.add_dir(root)
    assert said['added'] == 0 and 'outside' in said['skipped'][0]['error'] and vault.search('needle', mode='text') == []

@case('files-walk-12')
def test_a_note_added_during_a_scan_stays(vault, root, monkeypatch, report):
    (root/'a.md').write_text('# A\nfirst\n')
    vault.add_dir(root)
    (root/'a.md').unlink()
    walk = folders.walk_folder
    def walk_and_note(*args):
        found = walk(*args)
        vault.note('arrived meanwhile')
        return found
    monkeypatch.setattr(folders, 'walk_folder', walk_and_note)
    said = vault.add_dir(root, prune=True)
    assert said['pruned'] == 1 and vault.search('arrived meanwhile')[0].kind == 'note'

@case('files-walk-14')
def test_names_that_differ_in_case_are_two(vault, root, report):
    for name in report['input']['files']: (root/name).write_text(f'text of {name}\n')
    if len(list(root.iterdir())) < 2: pytest.skip('the disk folds case')
    assert vault.add_dir(root)['added'] == 2 and vault.stats()['docs'] == 2

@case('files-identity-05')
def test_a_moved_file_and_its_twin_are_two_documents(vault, root, report):
    (root/'a.md').write_text('# Same\nwords\n')
    vault.add_dir(root)
    os.rename(root/'a.md', root/'b.md')
    vault.add_dir(root, prune=True)
    (root/'a.md').write_text('# Same\nwords\n')
    vault.add_dir(root)
    assert vault.stats()['docs'] == 2 and len(vault.search('words', mode='text')) == 1
    vault.forget(str(root/'b.md'))
    assert vault.search('words', mode='text')[0].source.endswith('a.md') and vault.check()['ok']

def test_a_folder_that_is_not_there_is_no_empty_folder(vault, root):
    (root/'a.md').write_text('# A\nfirst\n')
    vault.add_dir(root)
    os.rename(root, root.with_name('gone'))
    with pytest.raises(AgentError): vault.add_dir(root, prune=True)
    assert vault.stats()['docs'] == 1

def test_another_shelfs_files_are_not_missed_here(vault, root):
    (root/'a.md').write_text('# A\nfirst\n')
    vault.shelf('other').add_dir(root)
    (root/'a.md').unlink()
    assert vault.add_dir(root, prune=True)['removed'] == [] and vault.shelf('other').stats()['docs'] == 1

def test_a_file_that_changes_at_once_is_read_again(vault, root):
    (root/'a.md').write_text('# A\nriver\n')
    before = os.stat(root/'a.md')
    vault.add_files([root/'a.md'])
    (root/'a.md').write_text('# A\nlakes\n')
    os.utime(root/'a.md', ns=(before.st_atime_ns, before.st_mtime_ns))
    assert vault.add_files([root/'a.md'])['updated'] == 1
